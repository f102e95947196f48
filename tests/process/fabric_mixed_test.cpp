// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A ring of shared memory and libfabric: faults and deadlines on links of both kinds.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "../fabric/mixed.hpp"
#include "ringlet/barrier.hpp"
#include "victims.hpp"

using namespace tests;

namespace {

// Here, before there are ranks: each of them would spend a third of a second on it.
[[maybe_unused]] auto const& loaded = ringlet::fabric_library::open("libfabric.so.1");

#define OVER_PROVIDERS(name) TEST_CASE_TEMPLATE(name, Ranks, mixed_over<"net">, mixed_over<"tcp;ofi_rxm">)

}  // namespace

static_assert(ringlet::pairwise<mixed>);

OVER_PROVIDERS("whoever is killed is named by every survivor within a second, its neighbours near and far") {
  std::int64_t worst = 0;
  for (int victim = 0; victim < 5; ++victim)  // on the last of three hosts it is alone
    for (std::size_t count : {10, 300'000}) {
      CAPTURE(victim);
      CAPTURE(count);
      victims<mixed> ranks(5, options_of<Ranks>(),
                           [&](auto& comm) { all_reduce_for_ever(comm, count, false, *ranks.told); });
      ranks.all_connected();
      while (ranks.told->rounds < 3) std::this_thread::sleep_for(100us);
      worst = std::max(worst, kill_and_hear(ranks, victim, 5s));
    }
  MESSAGE("the slowest survivor took " << static_cast<double>(worst) / 1e6 << " ms");
  CHECK(worst < 1'000'000'000);
}

OVER_PROVIDERS("a rank killed while messages go round is named by every survivor") {
  for (int victim = 0; victim < 4; ++victim) {
    victims<mixed> ranks(4, options_of<Ranks>(), [&](auto& comm) { messages_for_ever(comm, 200'000, *ranks.told); });
    ranks.all_connected();
    while (ranks.told->rounds < 3) std::this_thread::sleep_for(100us);
    kill_and_hear(ranks, victim, 5s);
  }
}

OVER_PROVIDERS("a rank that is stopped lets the others wait until their deadline, no longer") {
  auto options = options_of<Ranks>();
  options.timeout = 300ms;
  for (int victim : {1, 2}) {
    victims<mixed> ranks(4, options, [&](auto& comm) { all_reduce_for_ever(comm, 100'000, false, *ranks.told); });
    ranks.all_connected();
    while (ranks.told->rounds < 3) std::this_thread::sleep_for(100us);
    ::kill(ranks.pids[static_cast<std::size_t>(victim)], SIGSTOP);
    auto const begin = now();
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == victim) continue;
      REQUIRE(ranks.ends(rank, 20s));
      auto const& its = ranks.told->rank[rank];
      INFO(std::string(its.words));
      CHECK(its.why == static_cast<int>(errc::timed_out));
      CHECK(its.ended_at - begin < 10'000'000'000);
    }
    ::kill(ranks.pids[static_cast<std::size_t>(victim)], SIGCONT);  // finds out what the others did
    REQUIRE(ranks.ends(victim, 5s));
    CHECK(ranks.told->rank[victim].why == static_cast<int>(errc::timed_out));
  }
}

OVER_PROVIDERS("who calls something else is found on links of both kinds, and all hear of it") {
  for (int odd = 0; odd < 4; ++odd)
    CHECK(launch(4, [&](self who) {
            auto comm = ringlet::connect<mixed>(who, options_of<Ranks>());
            std::vector<float> x(50'000);
            auto const e = error_of([&] {
              ringlet::all_reduce(comm, x);  // slots have held calls before
              who.rank == odd ? ringlet::all_reduce(comm, x, ringlet::maximum{}) : ringlet::all_reduce(comm, x);
            });
            expect(e, errc::mismatch, "rank " + std::to_string(odd) + " called all_reduce of 50000 float32, max");
          }) == 0);
}

OVER_PROVIDERS("a call to abort ends waits on links of both kinds") {
  for (int who_aborts = 0; who_aborts < 4; ++who_aborts)
    CHECK(launch(4, [&](self who) {
            auto comm = ringlet::connect<mixed>(who, options_of<Ranks>());
            expect(error_of([&] {
                     ringlet::barrier(comm);
                     if (who.rank == who_aborts) comm.abort("enough");
                     for (;;) ringlet::barrier(comm);
                   }),
                   errc::aborted, "rank " + std::to_string(who_aborts) + ": enough");
          }) == 0);
}
