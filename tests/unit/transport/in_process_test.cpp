// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/in_process.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "../../ranks.hpp"
#include "ringlet/mapped_peers.hpp"

using namespace tests;
using ringlet::in_process;

static_assert(ringlet::transport<in_process> && ringlet::mapped_peers<in_process, float>);
// Capabilities that a transport may have, and this one has.
static_assert(requires(in_process & x) { x.settle(), x.absent(); });

TEST_CASE("the threads of one process connect, and reach each other") {
  CHECK(on<threads<in_process>>(3, [](auto& comm) {
          in_process& x = comm.transport();
          expect(x.rank() == comm.rank() && x.size() == 3, "rank or size");
          *x.board<int>(1) = comm.rank();
          x.publish({});
          for (int peer = 0; peer < 3; ++peer) {
            while (!x.published(peer)) std::this_thread::yield();
            expect(*x.read<int>(peer, 1) == peer, "the board");
          }
        }) == 0);
}

TEST_CASE("all memory is mapped, at the same address") {
  ringlet::meeting_of_one alone;
  in_process x(alone, {}, std::chrono::steady_clock::now() + 1s);
  std::vector<int> memory(10);
  auto const where = x.locate(&memory[3], 4);
  CHECK(where.window != 0);
  CHECK(x.at<int>(0, where) == &memory[3]);
}

TEST_CASE("ranks of other processes are refused, named, with what to use instead") {
  CHECK(launch(2, [](self who) {
          expect(error_of([&] { ringlet::connect<in_process>(who); }), errc::unsupported,
                 "rank " + std::to_string(who.rank == 0 ? 1 : 0) + " is in another one than rank " +
                     std::to_string(who.rank) + ": use shared_memory");
        }) == 0);
}

TEST_CASE("a rank that left is lost to those who need it later, not to those who did before") {
  CHECK(launch(2,
               [](self who) {
                 auto comm = ringlet::connect<in_process>(who);
                 in_process& x = comm.transport();
                 if (who.rank == 0) {
                   x.finish(3);
                   who.store.get("seen", std::chrono::steady_clock::now() + 10s);
                   return;
                 }
                 while (x.lost(4) < 0) std::this_thread::yield();
                 bool const right = x.lost(4) == 0 && x.lost(3) == -1;
                 who.store.set("seen", "");
                 expect(right, "who is lost");
               },
               {.as = ranks_as::threads}) == 0);
}

TEST_CASE("ranks may end in any order: the last one frees the memory") {
  for (int first : {0, 1, 2})
    CHECK(launch(3,
                 [&](self who) {
                   auto comm = std::make_unique<ringlet::communicator<in_process>>(ringlet::connect<in_process>(who));
                   if (who.rank != first) std::this_thread::sleep_for(2ms * who.rank);
                   comm.reset();
                 },
                 {.as = ranks_as::threads}) == 0);
}

TEST_CASE("more ranks than processors are noticed") {
  CHECK(on<threads<in_process>>(1, [](auto& comm) { expect(!comm.transport().crowded(), "one rank"); }) == 0);
  int const many = static_cast<int>(ringlet::detail::processors({ringlet::detail::affinity_text()})) + 1;
  if (many <= 64)
    CHECK(on<threads<in_process>>(many, [](auto& comm) { expect(comm.transport().crowded(), "too many"); }) == 0);
}
