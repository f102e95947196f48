// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Rings between hosts, whose cables are slow, lose packets, or are cut.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "../process/victims.hpp"
#include "between_hosts.hpp"
#include "network.hpp"
#include "ringlet/all_gather.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/reduce_scatter.hpp"

using namespace tests;

namespace {

using hosts = victims<between_hosts>;

// All collectives once, every element compared.
template <class Comm>
void all_right(Comm& comm, std::size_t count) {
  auto const me = static_cast<std::size_t>(comm.rank()), n = static_cast<std::size_t>(comm.size());
  auto const chunks = comm.chunks(count);
  std::vector<std::uint32_t> x(count), part(chunks.length(me));
  auto const sum = [&](std::size_t i) { return static_cast<std::uint32_t>(n * i * 7 + n * (n - 1) / 2); };
  auto const fill = [&] {
    for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<std::uint32_t>(i * 7 + me);
  };
  fill();
  ringlet::all_reduce(comm, x);
  for (std::size_t i = 0; i < count; ++i) expect(x[i] == sum(i), "all_reduce");
  fill();
  ringlet::reduce_scatter(comm, x, part);
  for (std::size_t i = 0; i < part.size(); ++i) expect(part[i] == sum(chunks.offset(me) + i), "reduce_scatter");
  ringlet::all_gather(comm, part, x);
  for (std::size_t i = 0; i < count; ++i) expect(x[i] == sum(i), "all_gather");
  ringlet::barrier(comm);
}

// Waits until an all_reduce is under way.
void begin(hosts& ranks) {
  for (auto const until = clock_type::now() + 20s; ranks.told->rounds < 3 && clock_type::now() < until;)
    std::this_thread::sleep_for(1ms);
  REQUIRE(ranks.told->rounds >= 3);
}
// Waits until every host has come to its end in peace.
void all_finish(hosts& ranks, std::chrono::milliseconds limit) {
  for (int rank = 0; rank < static_cast<int>(ranks.pids.size()); ++rank) {
    CAPTURE(rank);
    bool const well = ranks.finishes(rank, limit);
    INFO(std::string(ranks.told->rank[rank].words));
    REQUIRE(well);
  }
}
// Waits until every host has ended by an error, and looks at it.
void all_end(hosts& ranks, std::chrono::milliseconds limit) {
  for (int rank = 0; rank < static_cast<int>(ranks.pids.size()); ++rank) {
    CAPTURE(rank);
    CHECK(ranks.ends(rank, limit));
    auto const& its = ranks.told->rank[rank];
    INFO(std::string(its.words));
    CHECK((its.why == static_cast<int>(errc::peer_lost) || its.why == static_cast<int>(errc::timed_out)));
    CHECK(contains(its.words, "rank "));
  }
}

}  // namespace

TEST_CASE("collectives among 4 and 8 hosts, over cables of 1 Gbit/s") {
  for (int size : {4, 8}) {
    CAPTURE(size);
    hosts ranks(
        size, {},
        [](auto& comm) {
          for (std::size_t count : {0, 1, 7, 1'000, 300'001}) all_right(comm, count);
        },
        network::enter);
    network joined(ranks.pids, "1gbit");
    all_finish(ranks, 30s);
  }
}

TEST_CASE("a large all_reduce among 4 hosts takes little more than its bytes take on the cable") {
  constexpr std::size_t bytes = 4 << 20;
  hosts ranks(
      4, {},
      [&](auto& comm) {
        must(network::limited("eth0", "100mbit"));
        std::vector<float> x(bytes / sizeof(float));
        ringlet::all_reduce(comm, x);
        ringlet::barrier(comm);
        auto const begin = now();
        for (int i = 0; i < 2; ++i) ringlet::all_reduce(comm, x);
        ranks.told->rank[comm.rank()].ended_at = (now() - begin) / 2;
      },
      network::enter);
  network joined(ranks.pids, "100mbit");
  all_finish(ranks, 30s);
  // 1,448 of the 1,514 bytes of a frame are the caller's.
  double const least = 1.5 * bytes * 8 / (100e6 * 1448 / 1514);
  double const took = static_cast<double>(ranks.told->rank[0].ended_at) / 1e9;
  MESSAGE("of the bound: " << least / took);
  CHECK(least / took > 0.75);
}

TEST_CASE("a cable is cut during an all_reduce: an error on every host before the deadline is long over") {
  ringlet::connect_options<between_hosts> options;
  options.timeout = 2s;
  hosts ranks(
      4, options, [&](auto& comm) { all_reduce_for_ever(comm, 100'000, false, *ranks.told); }, network::enter);
  network joined(ranks.pids);
  begin(ranks);
  joined.cut(2);
  all_end(ranks, 6s);
}

TEST_CASE("a partition during an all_reduce: an error on both sides") {
  ringlet::connect_options<between_hosts> options;
  options.timeout = 2s;
  hosts ranks(
      4, options, [&](auto& comm) { all_reduce_for_ever(comm, 100'000, true, *ranks.told); }, network::enter);
  network joined(ranks.pids);
  begin(ranks);
  joined.part(2);
  all_end(ranks, 6s);
}

TEST_CASE("one packet in a hundred is lost: slower, and right") {
  if (!network::can_lose()) {
    MESSAGE("left out: no nft");
    return;
  }
  hosts ranks(
      4, {}, [](auto& comm) { all_right(comm, 200'000); }, network::enter);
  network joined(ranks.pids);
  joined.lose(10);
  all_finish(ranks, 60s);
}

int main(int argc, char** argv) {
  if (!network::possible()) {
    std::puts("left out: it needs root, ip and tc (Debian: iproute2), bridges and network namespaces");
    return 77;
  }
  ringlet::fabric_library::open("libfabric.so.1");  // here, before there are ranks, each of which would take its time
  return doctest::Context(argc, argv).run();
}
