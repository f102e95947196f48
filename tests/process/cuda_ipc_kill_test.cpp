// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Ranks with emulated devices that are killed: the others' calls end, soon, with an error that names the dead rank.

#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <span>
#include <string>
#include <thread>

#include "../emulated.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/on_stream.hpp"
#include "victims.hpp"

namespace {

using namespace tests;
using ringlet::on;

// Some calls at a time in one stream, on memory that all devices reach or not.
template <class Comm>
void calls_for_ever(Comm& comm, std::size_t count, bool in_reach, report& told) {
  auto const window = comm.template allocate<float>(count);
  std::span<float> const a(in_reach ? window.data() : static_cast<float*>(emulated::allocate(count * sizeof(float))),
                           count);
  stream s;
  for (;;) {
    for (int k = 0; k < 3; ++k) ringlet::all_reduce(on(s.get()), comm, a, ringlet::maximum{});
    ringlet::wait(on(s.get()), comm);
    if (comm.rank() == 0) ++told.rounds;
  }
}

}  // namespace

TEST_CASE("a rank killed at any moment is named by every survivor, whose devices are not left waiting") {
  unsigned const first = number_from("RINGLET_SEED", std::random_device{}()), kills = number_from("RINGLET_KILLS", 24);
  for (unsigned seed = first; seed != first + kills; ++seed) {
    std::mt19937 random(seed);
    auto pick = [&](int from, int to) { return std::uniform_int_distribution(from, to)(random); };
    bool const one_device = pick(0, 1) != 0, in_reach = pick(0, 1) != 0;
    auto options = small_device();
    options.transport.through_host = pick(0, 3) == 0;
    if (pick(0, 1) != 0) options.transport.select = {.line_bytes = 0, .one_shot_bytes = 0, .staged_bytes = 0};
    CAPTURE(seed);
    CAPTURE(in_reach);
    int const size = pick(2, 4), victim = pick(0, size - 1), after = pick(0, 5'000);
    constexpr std::size_t counts[] = {1, 1000, 30'000};
    std::size_t const count = counts[pick(0, 2)];
    CAPTURE(one_device);
    CAPTURE(options.transport.through_host);
    CAPTURE(size);
    CAPTURE(victim);
    CAPTURE(count);
    victims<over_emulated> ranks(
        size, options, [&](auto& comm) { calls_for_ever(comm, count, in_reach, *ranks.told); },
        one_device ? [](int) { emulated::use(0); } : [](int rank) { emulated::use(rank); });
    ranks.all_connected();
    std::this_thread::sleep_for(std::chrono::microseconds(after));
    std::int64_t const slowest = kill_and_hear(ranks, victim, 10s);
    CHECK(slowest < std::int64_t{3'000'000'000});
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
