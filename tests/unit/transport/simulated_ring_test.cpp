// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/simulated_ring.hpp"

#include <doctest/doctest.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

using namespace ringlet;

static_assert(transport<simulated_ring>);

TEST_CASE("fibers take turns, each where it stood, whatever is being thrown in another") {
  detail::fibers both(2);
  std::vector<int> said;
  auto const body = [&](int me) {
    return [&, me] {
      try {
        throw std::runtime_error(std::to_string(me));
      } catch (std::exception const& e) {
        said.push_back(10 * me);
        both.yield();  // while it is being caught
        said.push_back(10 * me + (e.what() == std::to_string(me) ? 1 : 9));
        try {
          throw;
        } catch (std::runtime_error const& again) {
          said.push_back(again.what() == std::to_string(me) ? 10 * me + 2 : -1);
        }
      }
    };
  };
  CHECK(both.resume(0, body(1)));
  CHECK(both.resume(1, body(2)));
  CHECK(std::uncaught_exceptions() == 0);
  CHECK_FALSE(both.resume(0, {}));
  CHECK_FALSE(both.resume(1, {}));
  CHECK_FALSE(both.resume(1, {}));  // has ended
  CHECK(said == std::vector<int>{10, 20, 11, 12, 21, 22});
}

TEST_CASE("a wait takes as long as the slice; a poll takes no time") {
  simulated world({.slot_bytes = 8, .wires = {{.alpha = 1e-6}}});
  detail::fibers ranks(2);
  struct meeting_of_two {
    int me;
    int rank() const { return me; }
    int size() const { return 2; }
    std::uint64_t token() const { return 1; }
    std::vector<std::string> exchange(std::string_view, std::string const&, time_point) const { return {}; }
  };
  placement const whole{0, 8, true};
  int polls = 0;
  auto const program = [&](int rank) {
    return [&, rank] {
      meeting_of_two m{rank};
      simulated_ring ring(m, {&world, &ranks}, {});
      CHECK(ring.slots() == 8);
      CHECK(ring.slot_bytes() == 8);
      if (rank == 0) {
        CHECK(ring.lane(0).next().try_acquire<char>(whole));
        ring.lane(0).next().commit();
        return;
      }
      for (; !ring.lane(0).prev().try_peek<char>(whole); ++polls) {
        CHECK(ring.now() < virtual_seconds(1e-6));
        if (polls < 3)
          ring.compute(1e-7);
        else
          ring.rest();
      }
      CHECK(ring.now() == virtual_seconds(1e-6));
      ring.lane(0).prev().release();
    };
  };
  world.run([&](int rank) {
    return ranks.resume(static_cast<std::size_t>(rank), program(rank)) ? status::pending : status::ready;
  });
  CHECK(world.why() == nullptr);
  CHECK(polls == 4);
  CHECK(world.lane(1).waited() == virtual_seconds(7e-7));
}
