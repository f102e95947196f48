// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// That messages arrive: point_to_point_test.cpp and the suite. Here, what is there before and after.
#include "ringlet/transport/segment_pairs.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../../over_both.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/point_to_point.hpp"

using namespace tests;

static_assert(ringlet::pairwise<ringlet::in_process> && ringlet::pairwise<ringlet::shared_memory>);
static_assert(ringlet::link<ringlet::in_process::pair_link, float>);
static_assert(ringlet::announcing_link<ringlet::shared_memory::pair_link>);

OVER_BOTH("a queue is made when it is first sent to, once, and its slots are no larger than those of the rings") {
  CHECK(on<Ranks>(3, [](auto& comm) {
          auto& x = comm.transport();
          std::vector<int> a(1), b(1);
          auto made = [&](int from, int to) { return x.pair_word(from, to).acquire(); };
          expect(made(0, 1) == 0 && made(1, 0) == 0, "nothing before");
          ringlet::barrier(comm);
          if (comm.rank() == 0) ringlet::send(comm, a, 1);
          if (comm.rank() == 1) ringlet::recv(comm, b, 0);
          ringlet::barrier(comm);
          std::uint64_t const first = made(0, 1);
          expect(first != 0 && made(1, 0) == 0 && made(0, 2) == 0, "the one that was used");
          if (comm.rank() == 0) ringlet::send(comm, a, 1);
          if (comm.rank() == 1) ringlet::recv(comm, b, 0);
          ringlet::barrier(comm);
          expect(made(0, 1) == first, "the same for the next message");
          expect(x.pair_slots() == x.slots() && x.pair_slot_bytes() == 64 << 10, "slots of a size for caches");
        }) == 0);
}

TEST_CASE("where there is no memory for a queue, the sender is told before anything is sent") {
  CHECK(on<processes<ringlet::shared_memory>>(2, [](auto& comm) {
          std::vector<int> x(1);
          if (comm.rank() == 0) {
            rlimit const little{1 << 20, 1 << 20};  // for files, also for those in memory
            ::setrlimit(RLIMIT_FSIZE, &little);
            ::signal(SIGXFSZ, SIG_IGN);
            expect(error_of([&] { ringlet::send(comm, x, 1); }), errc::out_of_memory, "bytes of shared memory");
          }
          ringlet::barrier(comm);  // and all goes on
        }) == 0);
}
