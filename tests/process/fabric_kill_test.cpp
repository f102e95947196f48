// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Killed, stopped and silent ranks over libfabric, whose providers mostly do not tell.

#include <dirent.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>
#include <string>

#include "../fabric/over.hpp"
#include "ringlet/barrier.hpp"
#include "victims.hpp"

using namespace tests;
using ringlet::fabric;

namespace {

// Here, before there are ranks: each of them would spend a third of a second on it.
[[maybe_unused]] auto const& loaded = ringlet::fabric_library::open("libfabric.so.1");

#define OVER_PROVIDERS(name) TEST_CASE_TEMPLATE(name, Ranks, over<"net">, over<"tcp;ofi_rxm">)

}  // namespace

OVER_PROVIDERS("a rank killed while messages go round is named by every survivor") {
  for (int i = 0; i < 4; ++i) {
    victims<fabric> ranks(4, options_of<Ranks>(),
                          [&](auto& comm) { messages_for_ever(comm, i % 2 == 0 ? 10 : 200'000, *ranks.told); });
    ranks.all_connected();
    while (ranks.told->rounds < 3) std::this_thread::sleep_for(100us);
    kill_and_hear(ranks, i, 5s);
  }
}

OVER_PROVIDERS("C48: a rank killed at any moment is named by every survivor within a second") {
  unsigned const first = number_from("RINGLET_SEED", std::random_device{}()), kills = number_from("RINGLET_KILLS", 20);
  std::int64_t worst = 0;
  for (unsigned seed = first; seed != first + kills; ++seed) {
    std::mt19937 random(seed);
    auto pick = [&](int from, int to) { return std::uniform_int_distribution(from, to)(random); };
    int const size = pick(2, 6), victim = pick(0, size - 1), after = pick(0, 10'000);
    constexpr std::size_t counts[] = {1, 100, 50'000, 1'000'000, 4'000'000};
    std::size_t const count = counts[pick(0, 4)];
    bool const in_window = pick(0, 1) == 1, small = count < 1'000'000 && pick(0, 1) == 1;
    CAPTURE(seed);
    CAPTURE(size);
    CAPTURE(victim);
    CAPTURE(count);
    CAPTURE(in_window);
    victims<fabric> ranks(
        size, options_of<Ranks>(small ? with_slots<fabric>(3, 1024, 2) : ringlet::connect_options<fabric>{}),
        [&](auto& comm) { all_reduce_for_ever(comm, count, in_window, *ranks.told); });
    ranks.all_connected();
    std::this_thread::sleep_for(std::chrono::microseconds(after));
    worst = std::max(worst, kill_and_hear(ranks, victim, 5s));
  }
  MESSAGE("seeds from " << first << ", " << kills << " kills, the slowest survivor took "
                        << static_cast<double>(worst) / 1e6 << " ms");
  CHECK(worst < 1'000'000'000);
}

OVER_PROVIDERS("a rank that is stopped lets the others wait until their deadline, no longer") {
  auto options = options_of<Ranks>();
  options.timeout = 300ms;
  for (std::size_t count : {10, 1'000'000}) {
    victims<fabric> ranks(3, options, [&](auto& comm) { all_reduce_for_ever(comm, count, false, *ranks.told); });
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
      CHECK(its.ended_at - begin < 10'000'000'000);
    }
    ::kill(ranks.pids[1], SIGCONT);  // finds out what the others did
    REQUIRE(ranks.ends(1, 5s));
    CHECK(ranks.told->rank[1].why == static_cast<int>(errc::timed_out));
  }
}

OVER_PROVIDERS("a rank that exits without a word is lost, and noticed by polling as well as by waiting") {
  victims<fabric> ranks(3, options_of<Ranks>(), [&](auto& comm) {
    std::vector<int> x(1'000);
    for (int i = 0; i < 10; ++i) ringlet::all_reduce(comm, x);
    if (comm.rank() == 2) ::_exit(0);
    auto operation = ringlet::async_all_reduce(comm, x);
    while (comm.rank() == 0 && operation.poll() == ringlet::status::pending) std::this_thread::sleep_for(1ms);
    operation.wait();
  });
  for (int rank : {0, 1}) {
    REQUIRE(ranks.ends(rank, 5s));
    CHECK(ranks.told->rank[rank].why == static_cast<int>(errc::peer_lost));
    CHECK(ranks.told->rank[rank].peer == 2);
  }
}

TEST_CASE_TEMPLATE("nothing is left behind when all ranks are killed", Ranks, over<"net">, over<"tcp;ofi_rxm">) {
  auto const names = [] {
    std::set<std::string> all;
    DIR* const d = ::opendir("/dev/shm");
    while (dirent const* const entry = ::readdir(d)) all.insert(entry->d_name);
    ::closedir(d);
    return all;
  };
  auto const before = names();
  victims<fabric> ranks(3, options_of<Ranks>(),
                        [&](auto& comm) { all_reduce_for_ever(comm, 100'000, true, *ranks.told); });
  ranks.all_connected();
  std::this_thread::sleep_for(5ms);
  for (pid_t pid : ranks.pids) ::kill(pid, SIGKILL);
  for (int rank : {0, 1, 2}) CHECK(!ranks.ends(rank, 5s));
  CHECK(names() == before);
}
