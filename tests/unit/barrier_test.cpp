// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/barrier.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <atomic>
#include <thread>

#include "../over_both.hpp"
#include "ringlet/split.hpp"

using namespace tests;

OVER_BOTH("nobody leaves before all have come") {
  auto* const memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* const come = new (memory) std::atomic<int>(0);
  for (int size : {1, 2, 3, 5}) {
    *come = 0;
    CHECK(on<Ranks>(size, [&](auto& comm) {
            for (int i = 1; i <= 50; ++i) {
              come->fetch_add(1, std::memory_order_relaxed);  // the barrier must order it
              ringlet::barrier(comm);
              expect(come->load(std::memory_order_relaxed) >= i * size, "left too soon");
              ringlet::barrier(comm);
            }
          }) == 0);
  }
  ::munmap(memory, 4096);
}

OVER_BOTH("a barrier that was started is pending until the last rank has started it") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto aside = comm.split(0);
          ringlet::barrier(comm);
          if (comm.rank() == 0) {
            auto running = ringlet::async_barrier(comm);
            for (int i = 0; i < 1000; ++i) expect(running.poll() == ringlet::status::pending, "ready too soon");
            ringlet::barrier(*aside);
            running.cancel();
          } else {  // does not start it
            ringlet::barrier(*aside);
            while (comm.transport().told() == nullptr) std::this_thread::yield();
            expect(error_of([&] { ringlet::barrier(comm); }), errc::aborted, "rank 0 cancelled");
          }
        }) == 0);
}
