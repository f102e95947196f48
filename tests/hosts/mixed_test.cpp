// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Rings of shared memory inside hosts, and libfabric between them.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "../process/victims.hpp"
#include "between_hosts.hpp"
#include "network.hpp"
#include "ringlet/all_gather.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/transport/mixed.hpp"
#include "ringlet/transport/shared_memory.hpp"

using namespace tests;

namespace {

using transport = ringlet::mixed<ringlet::shared_memory, between_hosts>;

// Two hosts, of three ranks and of two.
constexpr int size = 5, host_of[size] = {0, 0, 1, 1, 0};
// By host, the process that has made it, once it is there.
std::atomic<pid_t>* made_by = nullptr;

// What a rank's process calls first: the first of a host makes it, the others come to it.
void enter(int rank) {
  int const host = host_of[rank];
  if (rank == (host == 0 ? 0 : 2)) {
    network::enter(host);
    made_by[host] = ::getpid();
    return;
  }
  while (made_by[host] == 0) std::this_thread::sleep_for(1ms);
  ringlet::descriptor const there(
      ::open(("/proc/" + std::to_string(made_by[host]) + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC));
  if (::setns(there.get(), CLONE_NEWNET) != 0) ::_exit(3);
}

}  // namespace

TEST_CASE("links are near inside hosts and far between them, and all collectives and messages are right") {
  made_by[0] = made_by[1] = 0;
  victims<transport> ranks(
      size, {},
      [](auto& comm) {
        for (int r = 0; r < size; ++r)
          expect(comm.transport().is_near(r) == (host_of[r] == host_of[comm.rank()]), "who is near");
        for (std::size_t count : {1, 1'000, 300'001}) {
          std::vector<double> x(count, 1 << comm.rank());
          ringlet::all_reduce(comm, x);
          for (double got : x) expect(got == (1 << size) - 1, "all_reduce");
        }
        std::vector<int> all(size), one(1);
        all[static_cast<std::size_t>(comm.rank())] = comm.rank();
        ringlet::all_gather(comm, all);
        for (int r = 0; r < size; ++r) expect(all[static_cast<std::size_t>(r)] == r, "all_gather");
        for (int step = 1; step < size; ++step) {
          std::vector<int> const mine{comm.rank()};
          int const from = (comm.rank() + size - step) % size;
          auto sent = ringlet::async_send(comm, mine, (comm.rank() + step) % size);
          ringlet::recv(comm, one, from);
          sent.wait();
          expect(one[0] == from, "a message");
        }
      },
      enter);
  network joined({ranks.pids[0], ranks.pids[2]});
  for (int rank = 0; rank < size; ++rank) {
    CAPTURE(rank);
    bool const well = ranks.finishes(rank, 30s);
    INFO(std::string(ranks.told->rank[rank].words));
    REQUIRE(well);
  }
}

TEST_CASE("a cable is cut: an error on every rank of both hosts") {
  made_by[0] = made_by[1] = 0;
  ringlet::connect_options<transport> options;
  options.timeout = 2s;
  victims<transport> ranks(
      size, options, [&](auto& comm) { all_reduce_for_ever(comm, 100'000, false, *ranks.told); }, enter);
  network joined({ranks.pids[0], ranks.pids[2]});
  for (auto const until = clock_type::now() + 20s; ranks.told->rounds < 3 && clock_type::now() < until;)
    std::this_thread::sleep_for(1ms);
  REQUIRE(ranks.told->rounds >= 3);
  joined.cut(1);
  for (int rank = 0; rank < size; ++rank) {
    CAPTURE(rank);
    CHECK(ranks.ends(rank, 6s));
    auto const& its = ranks.told->rank[rank];
    INFO(std::string(its.words));
    CHECK((its.why == static_cast<int>(errc::peer_lost) || its.why == static_cast<int>(errc::timed_out)));
    CHECK(contains(its.words, "rank "));
  }
}

int main(int argc, char** argv) {
  if (!network::possible()) {
    std::puts("left out: it needs root, ip and tc (Debian: iproute2), bridges and network namespaces");
    return 77;
  }
  ringlet::fabric_library::open("libfabric.so.1");  // here, before there are ranks, each of which would take its time
  made_by = static_cast<std::atomic<pid_t>*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return doctest::Context(argc, argv).run();
}
