// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The suite, and what fails, over the provider and the interface of libfabric that the environment names, for providers
// that test machines do not have: RINGLET_PROVIDER, RINGLET_INTERFACE. See soft_roce.sh.

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "../process/victims.hpp"
#include "../suite/suite.hpp"
#include "ringlet/transport/fabric.hpp"

using namespace tests;

namespace {
class named : public ringlet::fabric {
 public:
  struct settings : ringlet::fabric::settings {
    settings() {
      provider = std::string("=") + std::getenv("RINGLET_PROVIDER");
      interface = std::string("=") + std::getenv("RINGLET_INTERFACE");
    }
  };
  using fabric::fabric;
};
}  // namespace

RINGLET_SUITE(processes<named>);

TEST_CASE("with memory that all have allocated, nothing is copied") {
  constexpr std::size_t count = 1'000'000;
  CHECK(on<processes<named>>(2, [](auto& comm) {
          if (comm.transport().level() != 2) return;
          auto const memory = comm.template allocate<float>(count);
          std::fill(memory.begin(), memory.end(), 1.0F);
          auto const before = comm.transport().statistics();
          ringlet::all_reduce(comm, memory);
          auto const after = comm.transport().statistics();
          expect(std::count(memory.begin(), memory.end(), 2.0F) == count, "the sum");
          expect(after.landed - before.landed == count / 2 * sizeof(float), "not all has landed");
          expect(after.final_in_slots == before.final_in_slots, "final values came to slots");
          expect(after.staged == before.staged, "something was copied before it was sent");
        }) == 0);
}

TEST_CASE("a rank killed in the middle is named by every survivor") {
  for (auto const& [victim, count] : {std::pair{0, 100}, {1, 100'000}, {2, 100'000}}) {
    CAPTURE(victim);
    victims<named> ranks(3, {}, [&](auto& comm) {
      all_reduce_for_ever(comm, static_cast<std::size_t>(count), victim == 1, *ranks.told);
    });
    ranks.all_connected();
    while (ranks.told->rounds < 3) std::this_thread::sleep_for(100us);
    kill_and_hear(ranks, victim, 30s);
  }
}
