// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/shared_memory.hpp"

#include <doctest/doctest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "../../ranks.hpp"
#include "ringlet/mapped_peers.hpp"

using namespace tests;
using ringlet::shared_memory;

static_assert(ringlet::transport<shared_memory> && ringlet::mapped_peers<shared_memory, float>);
// Capabilities that a transport may have, and this one has.
static_assert(requires(shared_memory & x, std::byte* p) { x.settle(), x.absent(), x.close_window(p); });

namespace {

ringlet::time_point soon() { return std::chrono::steady_clock::now() + 10s; }

// A window of one rank, whose parts need no exchange.
std::byte* open_alone(shared_memory& x, std::size_t bytes) {
  return x.open_window(bytes, [](auto mine) { return std::vector{mine}; });
}

}  // namespace

TEST_CASE("processes and threads connect, and reach each other") {
  for (auto as : {ranks_as::processes, ranks_as::threads})
    CHECK(launch(3,
                 [](self who) {
                   auto comm = ringlet::connect<shared_memory>(who);
                   shared_memory& x = comm.transport();
                   *x.board<int>(1) = who.rank;
                   x.publish({});
                   for (int peer = 0; peer < 3; ++peer) {
                     while (!x.published(peer)) std::this_thread::yield();
                     expect(*x.read<int>(peer, 1) == peer, "the board");
                   }
                 },
                 {.as = as}) == 0);
}

TEST_CASE("the directory is each rank's own business, all else is compared") {
  shared_memory::settings here, there;
  there.directory = "/dev/shm";
  CHECK(here.describe() == there.describe());
  there.slots = 9;
  CHECK(here.describe() != there.describe());
}

TEST_CASE("a rank that cannot make its memory is named on all ranks, before they wait for it") {
  CHECK(launch(3, [](self who) {
          ringlet::connect_options<shared_memory> options;
          if (who.rank == 1) options.transport.directory = "/nowhere/at/all";
          auto const e = error_of([&] { ringlet::connect<shared_memory>(who, options); });
          expect(e, errc::out_of_memory, "rank 1: making an unnamed file in /nowhere/at/all failed");
          expect(e->peer() == 1, "the peer");
        }) == 0);
}

TEST_CASE("memory in a window is located, other memory is not") {
  ringlet::meeting_of_one alone;
  shared_memory x(alone, {}, soon());
  std::byte* const a = open_alone(x, 8192);
  std::byte* const b = open_alone(x, 8192);
  std::byte elsewhere[16] = {};
  CHECK(x.locate(elsewhere, 16).window == 0);
  CHECK(x.locate(a, 8192).window != 0);
  CHECK(x.locate(a, 8192).window != x.locate(b, 8192).window);
  CHECK(x.locate(b + 100, 16).offset == 100);
  CHECK(x.locate(a + 8184, 16).window == 0);  // sticks out
  CHECK(x.locate(a - 8, 16).window == 0);
  CHECK(x.at<std::byte>(0, x.locate(b + 100, 16)) == b + 100);
  x.close_window(a);
  CHECK(x.locate(a, 16).window == 0);
}

TEST_CASE("a window that all have closed is unmapped when the next one opens") {
  auto mapped = [] {
    FILE* const maps = std::fopen("/proc/self/maps", "r");
    int lines = 0;
    for (int c; (c = std::fgetc(maps)) != EOF;) lines += c == '\n';
    std::fclose(maps);
    return lines;
  };
  ringlet::meeting_of_one alone;
  shared_memory x(alone, {}, soon());
  int before = 0;
  for (int i = 0; i < 50; ++i) {
    x.close_window(open_alone(x, 1 << 20));
    if (i == 1) before = mapped();
  }
  CHECK(mapped() <= before + 1);
}

TEST_CASE("a rank that was killed is lost; one that ends in good order is lost only to those who need it later") {
  CHECK(launch(3, [](self who) {
          auto comm = ringlet::connect<shared_memory>(who);
          shared_memory& x = comm.transport();
          if (who.rank == 1) x.finish(3), ::_exit(0);
          expect(x.lost(2) == -1, "nobody is lost");
          if (who.rank == 2) {
            who.store.get("go", soon());
            ::raise(SIGKILL);
          }
          while (x.lost(4) != 1) std::this_thread::yield();
          expect(x.lost(3) == -1, "rank 1 had finished");
          who.store.set("go", "");
          while (x.lost(0) != 2) std::this_thread::yield();
        }) == 1);
}

TEST_CASE("C59: a rank that comes late is waited for, and one that never comes is named") {
  CHECK(launch(2, [](self who) {
          if (who.rank == 1) std::this_thread::sleep_for(100ms);
          ringlet::connect<shared_memory>(who);
        }) == 0);
  CHECK(launch(2, [](self who) {
          if (who.rank == 1) return;
          ringlet::connect_options<shared_memory> options;
          options.connect_timeout = 100ms;
          auto const e = error_of([&] { ringlet::connect(who, options); });
          expect(e, errc::bootstrap, "rank 1 of 2 did not come");
        }) == 0);
}

TEST_CASE("C63: ranks that cannot reach each other's sockets are refused clearly") {
  if (launch(1, [](self) { return ::unshare(CLONE_NEWNET); }) != 0) {
    MESSAGE("skipped: no network namespace can be made here");
    return;
  }
  // Rank 1 goes to a network namespace of its own, as containers do; abstract sockets do not reach across.
  CHECK(launch(2, [](self who) {
          if (who.rank == 1) expect(::unshare(CLONE_NEWNET) == 0, "a network namespace");
          auto const e = error_of([&] { ringlet::connect<shared_memory>(who); });
          expect(e, errc::unsupported, "in another network namespace");
        }) == 0);
}
