// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Ranks with emulated devices that are killed: the others' calls end, soon, with an error that names the dead rank.

#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <thread>

#include "../emulated.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/on_stream.hpp"
#include "victims.hpp"

namespace {

using namespace tests;
using ringlet::on;

// Some calls at a time in one stream.
template <class Comm>
void calls_for_ever(Comm& comm, std::size_t count, report& told) {
  auto const a = comm.template allocate<float>(count);
  stream s;
  for (;;) {
    for (int k = 0; k < 3; ++k) ringlet::all_reduce(on(s.get()), comm, a, ringlet::maximum{});
    ringlet::wait(on(s.get()), comm);
    if (comm.rank() == 0) ++told.rounds;
  }
}

}  // namespace

TEST_CASE("a rank killed at any moment is named by every survivor, whose devices are not left waiting") {
  std::mt19937 random(20);
  auto pick = [&](int from, int to) { return std::uniform_int_distribution(from, to)(random); };
  for (int k = 0; k < 16; ++k) {
    bool const one_device = k % 2 != 0;
    auto options = small_device();
    options.transport.through_host = k % 4 >= 2;
    int const size = pick(2, 4), victim = pick(0, size - 1), after = pick(0, 5'000);
    constexpr std::size_t counts[] = {1, 1000, 30'000};
    std::size_t const count = counts[pick(0, 2)];
    CAPTURE(one_device);
    CAPTURE(options.transport.through_host);
    CAPTURE(size);
    CAPTURE(victim);
    CAPTURE(count);
    victims<over_emulated> ranks(
        size, options, [&](auto& comm) { calls_for_ever(comm, count, *ranks.told); },
        one_device ? [](int) { emulated::use(0); } : [](int rank) { emulated::use(rank); });
    ranks.all_connected();
    std::this_thread::sleep_for(std::chrono::microseconds(after));
    std::int64_t const killed_at = now();
    ::kill(ranks.pids[static_cast<std::size_t>(victim)], SIGKILL);
    for (int rank = 0; rank < size; ++rank) {
      if (rank == victim) continue;
      CAPTURE(rank);
      REQUIRE(ranks.ends(rank, 10s));
      auto const& its = ranks.told->rank[rank];
      INFO(std::string(its.words));
      CHECK(its.why == static_cast<int>(errc::peer_lost));
      CHECK(its.peer == victim);
      CHECK(its.ended_at - killed_at < std::int64_t{3'000'000'000});
    }
  }
}

TEST_CASE("a rank that leaves in good order is missed only by those who call more often") {
  for (bool one_device : {false, true}) {
    victims<over_emulated> ranks(
        3, small_device(),
        [&](auto& comm) {
          auto const a = comm.template allocate<float>(1000);
          stream s;
          for (int k = 0; k < (comm.rank() == 1 ? 2 : 3); ++k) {
            ringlet::all_reduce(on(s.get()), comm, a);
            ringlet::wait(on(s.get()), comm);
          }
        },
        one_device ? [](int) { emulated::use(0); } : [](int rank) { emulated::use(rank); });
    CHECK(ranks.finishes(1, 10s));
    for (int rank : {0, 2}) {
      REQUIRE(ranks.ends(rank, 10s));
      INFO(std::string(ranks.told->rank[rank].words));
      CHECK(ranks.told->rank[rank].why == static_cast<int>(errc::peer_lost));
      CHECK(ranks.told->rank[rank].peer == 1);
    }
  }
}
