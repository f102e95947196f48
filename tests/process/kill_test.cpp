// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Ranks that are killed, stopped or simply gone, at any moment: the others end with an error that names them, soon.

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ringlet/all_gather.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/reduce_scatter.hpp"
#include "ringlet/transport/shared_memory.hpp"
#include "victims.hpp"

using namespace tests;
using ringlet::shared_memory;

TEST_CASE("C48: a rank killed at any moment is named by every survivor within a second") {
  unsigned const first = number_from("RINGLET_SEED", std::random_device{}()), kills = number_from("RINGLET_KILLS", 200);
  std::int64_t worst = 0;
  for (unsigned seed = first; seed != first + kills; ++seed) {
    std::mt19937 random(seed);
    auto pick = [&](int from, int to) { return std::uniform_int_distribution(from, to)(random); };
    int const size = pick(2, 8), victim = pick(0, size - 1), after = pick(0, 3'000);
    constexpr std::size_t counts[] = {1, 100, 4'000, 50'000, 300'000};
    std::size_t const count = counts[pick(0, 4)];
    bool const in_window = pick(0, 1) == 1, small_slots = pick(0, 1) == 1;
    auto options = small_slots ? with_slots<shared_memory>(3, 1024, 2) : ringlet::connect_options<shared_memory>{};
    CAPTURE(seed);
    CAPTURE(size);
    CAPTURE(victim);
    CAPTURE(count);
    CAPTURE(in_window);

    victims<shared_memory> ranks(size, options,
                                 [&](auto& comm) { all_reduce_for_ever(comm, count, in_window, *ranks.told); });
    ranks.all_connected();
    std::this_thread::sleep_for(std::chrono::microseconds(after));
    worst = std::max(worst, kill_and_hear(ranks, victim, 5s));
  }
  MESSAGE("seeds from " << first << ", " << kills << " kills, the slowest survivor took "
                        << static_cast<double>(worst) / 1e6 << " ms");
  CHECK(worst < 1'000'000'000);
}

TEST_CASE("C48: rank 3 of 8 is killed in an all_reduce") {
  victims<shared_memory> ranks(8, {}, [&](auto& comm) { all_reduce_for_ever(comm, 100'000, false, *ranks.told); });
  ranks.all_connected();
  while (ranks.told->rounds < 3) std::this_thread::sleep_for(1ms);
  ::kill(ranks.pids[3], SIGKILL);
  for (int rank : {0, 1, 2, 4, 5, 6, 7}) {
    REQUIRE(ranks.ends(rank, 5s));
    CHECK(contains(ranks.told->rank[rank].words, "rank 3 has ended or left"));
  }
}

TEST_CASE("a rank killed while messages go round is named by every survivor") {
  for (int i = 0; i < 20; ++i) {
    int const victim = i % 4;
    victims<shared_memory> ranks(4, {},
                                 [&](auto& comm) { messages_for_ever(comm, i % 2 == 0 ? 10 : 200'000, *ranks.told); });
    ranks.all_connected();
    while (ranks.told->rounds < 3) std::this_thread::sleep_for(100us);
    kill_and_hear(ranks, victim, 5s);
  }
}

TEST_CASE("several ranks killed at once: every survivor ends, and names one of them") {
  for (int i = 0; i < 10; ++i) {
    victims<shared_memory> ranks(6, {},
                                 [&](auto& comm) { all_reduce_for_ever(comm, 30'000, i % 2 == 0, *ranks.told); });
    ranks.all_connected();
    std::this_thread::sleep_for(2ms);
    for (std::size_t rank : {1, 2, 5}) ::kill(ranks.pids[rank], SIGKILL);
    for (int rank : {0, 3, 4}) {
      REQUIRE(ranks.ends(rank, 5s));
      auto const& its = ranks.told->rank[rank];
      CHECK(its.why == static_cast<int>(errc::peer_lost));
      CHECK((its.peer == 1 || its.peer == 2 || its.peer == 5));
    }
  }
}

TEST_CASE("a rank that is stopped lets the others wait until their deadline, no longer") {
  ringlet::connect_options<shared_memory> options;
  options.timeout = 300ms;
  for (std::size_t count : {10, 100'000}) {
    victims<shared_memory> ranks(3, options, [&](auto& comm) { all_reduce_for_ever(comm, count, false, *ranks.told); });
    ranks.all_connected();
    while (ranks.told->rounds < 3) std::this_thread::sleep_for(100us);
    ::kill(ranks.pids[1], SIGSTOP);
    auto const begin = now();
    for (int rank : {0, 2}) {
      REQUIRE(ranks.ends(rank, 20s));
      auto const& its = ranks.told->rank[rank];
      INFO(std::string(its.words));
      CHECK(its.why == static_cast<int>(errc::timed_out));
      CHECK(contains(its.words, "waited 300 ms in call"));
      CHECK(contains(its.words, count == 10 ? "for rank 1" : "for "));  // a small one is never beyond its exchange
      CHECK(contains(its.words, "connect_options::timeout"));
      CHECK(its.ended_at - begin < 10'000'000'000);
    }
    ::kill(ranks.pids[1], SIGCONT);  // finds out what the others did
    REQUIRE(ranks.ends(1, 5s));
    CHECK(ranks.told->rank[1].why == static_cast<int>(errc::timed_out));
  }
}

TEST_CASE("a rank that is stopped for less than the deadline harms nobody") {
  ringlet::connect_options<shared_memory> options;
  options.timeout = 20s;
  victims<shared_memory> ranks(3, options, [&](auto& comm) { all_reduce_for_ever(comm, 10'000, false, *ranks.told); });
  ranks.all_connected();
  for (int i = 0; i < 5; ++i) {
    ::kill(ranks.pids[2], SIGSTOP);
    std::this_thread::sleep_for(50ms);
    int const before = ranks.told->rounds;
    ::kill(ranks.pids[2], SIGCONT);
    for (auto const until = clock_type::now() + 10s; ranks.told->rounds < before + 2 && clock_type::now() < until;)
      std::this_thread::sleep_for(100us);
    CHECK(ranks.told->rounds >= before + 2);
  }
}

TEST_CASE("a rank that exits without a word is lost; the exit of one that has no more to do is not") {
  victims<shared_memory> ranks(3, {}, [&](auto& comm) {
    std::vector<int> x(1'000);
    for (int i = 0; i < 10; ++i) ringlet::all_reduce(comm, x);
    if (comm.rank() == 2) ::_exit(0);
    ringlet::all_reduce(comm, x);
  });
  for (int rank : {0, 1}) {
    REQUIRE(ranks.ends(rank, 5s));
    CHECK(ranks.told->rank[rank].why == static_cast<int>(errc::peer_lost));
    CHECK(ranks.told->rank[rank].peer == 2);
  }
}

TEST_CASE("a rank that throws is named by those who wait for it") {
  victims<shared_memory> ranks(3, {}, [&](auto& comm) {
    std::vector<int> x(1'000);
    ringlet::all_reduce(comm, x);
    if (comm.rank() == 1) throw std::runtime_error("something else went wrong");
    ringlet::all_reduce(comm, x);
  });
  for (int rank : {0, 2}) {
    REQUIRE(ranks.ends(rank, 5s));
    CHECK(ranks.told->rank[rank].why == static_cast<int>(errc::peer_lost));
    CHECK(ranks.told->rank[rank].peer == 1);
  }
}

TEST_CASE("every kind of operation ends when a rank is killed, and polling finds out as well as waiting") {
  for (int kind = 0; kind < 5; ++kind) {
    CAPTURE(kind);
    victims<shared_memory> ranks(3, with_slots<shared_memory>(2, 4096), [&](auto& comm) {
      std::vector<float> x(40'000), chunk(comm.chunks(x.size()).length(static_cast<std::size_t>(comm.rank())));
      for (;; ++ranks.told->rounds) switch (kind) {
          case 0: ringlet::reduce_scatter(comm, x, chunk); break;
          case 1: ringlet::all_gather(comm, chunk, x); break;
          case 2: ringlet::barrier(comm); break;
          case 3: {
            auto first = ringlet::async_all_reduce(comm, x);
            auto second = ringlet::async_barrier(comm);
            second.wait();
            break;
          }
          default: {
            auto polled = ringlet::async_all_reduce(comm, x);
            while (polled.poll() == ringlet::status::pending) ::sched_yield();
            polled.wait();
          }
        }
    });
    ranks.all_connected();
    while (ranks.told->rounds < 10) std::this_thread::sleep_for(100us);
    ::kill(ranks.pids[0], SIGKILL);
    for (int rank : {1, 2}) {
      REQUIRE(ranks.ends(rank, 5s));
      CHECK(ranks.told->rank[rank].why == static_cast<int>(errc::peer_lost));
      CHECK(ranks.told->rank[rank].peer == 0);
    }
  }
}
