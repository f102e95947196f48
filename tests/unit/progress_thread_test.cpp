// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/progress_thread.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "../over_both.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/bucketer.hpp"
#include "ringlet/split.hpp"

using namespace tests;
using counts = std::vector<std::size_t>;

namespace {

std::vector<std::size_t> const sizes(20, 700);
constexpr ringlet::bucket_bytes small{1'000, 10'000};

double cpu_seconds() {
  timespec t;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Never has anything to do, and remembers how it was driven.
struct idle {
  std::atomic<int> polls = 0, dozes = 0, wakes = 0;
  bool called_back_in_poll = false;
  int seen = 0;

  ringlet::status poll() noexcept {
    ++polls, polls.notify_one();
    if (called_back_in_poll) wakes.wait(0);
    seen = wakes;
    return ringlet::status::pending;
  }
  bool doze() {
    ++dozes, dozes.notify_one();
    wakes.wait(seen);
    return true;
  }
  void wake() { ++wakes, wakes.notify_one(); }
  void wait() {}
};

}  // namespace

TEST_CASE("it polls once, and then lets what it drives sleep until that is woken") {
  CHECK(on<tests::threads<ringlet::in_process>>(1, [](auto& comm) {
          idle work;
          ringlet::progress_thread progress(comm, work);
          progress.start();
          work.dozes.wait(0);
          work.wake();
          work.dozes.wait(1);
          progress.wait();
          expect(work.polls == 3 && work.dozes == 2, std::to_string(work.polls) + " polls");
        }) == 0);
}

TEST_CASE("it does not let it sleep when it was called back in the meantime") {
  CHECK(on<tests::threads<ringlet::in_process>>(1, [](auto& comm) {
          idle work;
          work.called_back_in_poll = true;
          ringlet::progress_thread progress(comm, work);
          progress.start();
          work.polls.wait(0);
          progress.wait();
          expect(work.polls == 1 && work.dozes == 0, "the order of events");
        }) == 0);
}

OVER_BOTH("a thread carries a bucketer through step after step, while its owner only writes gradients") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto buckets = ringlet::make_bucketer<int>(comm, sizes, ringlet::sum{}, small);
          ringlet::progress_thread progress(comm, buckets);
          for (int step = 1; step < 50; ++step) {
            progress.start();
            for (std::size_t i = 0; i < buckets.size(); ++i) {
              for (int& e : buckets.gradient(i)) e = step + comm.rank();
              buckets.ready(i);
            }
            progress.wait();
            for (std::size_t i = 0; i < buckets.size(); ++i)
              for (int const e : buckets.gradient(i)) expect(e == 2 * step + 1, "the sum");
            if (step % 7 == 0) ringlet::barrier(comm);  // the communicator is the caller's between steps
          }
        }) == 0);
}

OVER_BOTH("it finishes an operation that its owner does not poll") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto aside = comm.split(0);
          std::vector<int> x(50'000, 1);
          auto operation = ringlet::async_all_reduce(comm, x);
          ringlet::progress_thread progress(comm, operation);
          if (comm.rank() == 0)
            progress.start();
          else
            operation.wait();        // ends only if the other's thread polls,
          ringlet::barrier(*aside);  // for its owner is here
          progress.wait();           // without a start it waits itself
          expect(x[0] == 2 && x[49'999] == 2, "the sums");
        }) == 0);
}

OVER_BOTH("it finishes a bucketer's step that its owner does not poll") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto aside = comm.split(0);
          auto buckets = ringlet::make_bucketer<int>(comm, sizes, ringlet::sum{}, small);
          ringlet::progress_thread progress(comm, buckets);
          if (comm.rank() == 0) progress.start();
          for (std::size_t i = 0; i < buckets.size(); ++i) buckets.ready(i);
          if (comm.rank() == 1) buckets.wait();
          ringlet::barrier(*aside);
          if (comm.rank() == 0) progress.wait();
        }) == 0);
}

OVER_BOTH("it gives the communicator back whatever it is doing, and a step can go on") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto buckets = ringlet::make_bucketer<int>(comm, sizes, ringlet::sum{}, small);
          ringlet::progress_thread progress(comm, buckets);
          for (int step = 0; step < 30; ++step) {
            for (std::size_t i = 0; i < buckets.size(); ++i) {
              progress.start();
              if (step % 3 == 0) std::this_thread::yield();  // it may have gone to sleep
              expect(error_of([&] { progress.wait(); }), errc::invalid_argument,
                     "gradient " + std::to_string(i) + " of 20 is not ready");
              if (step % 2 == 0) progress.start();
              buckets.gradient(i)[0] = 1;
              buckets.ready(i);
            }
            progress.wait();
            for (std::size_t i = 0; i < buckets.size(); ++i) expect(buckets.gradient(i)[0] == 2, "the sum");
          }
        }) == 0);
}

OVER_BOTH("while a bucketer has nothing under way, it sleeps") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto buckets = ringlet::make_bucketer<int>(comm, sizes, ringlet::sum{}, small);
          ringlet::progress_thread progress(comm, buckets);
          progress.start();
          buckets.ready(0);
          buckets.ready(1);
          std::this_thread::sleep_for(20ms);
          double const begin = cpu_seconds();
          std::this_thread::sleep_for(200ms);
          expect(cpu_seconds() - begin < 0.1, "processor time while asleep");  // two ranks of threads would use 0.4
          for (std::size_t i = 2; i < buckets.size(); ++i) buckets.ready(i);
          progress.wait();
        }) == 0);
}

OVER_BOTH("its owner gets the reason of a failure") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto aside = comm.split(0);
          auto buckets = ringlet::make_bucketer<int>(comm, sizes, ringlet::sum{}, small);
          ringlet::progress_thread progress(comm, buckets);
          progress.start();
          buckets.ready(0);
          buckets.ready(1);
          ringlet::barrier(*aside);  // both have their memory
          if (comm.rank() == 1) return comm.abort("had enough");
          while (comm.transport().told() == nullptr) std::this_thread::yield();
          for (std::size_t i = 2; i < buckets.size(); ++i) buckets.ready(i);
          expect(error_of([&] { progress.wait(); }), errc::aborted, "rank 1: had enough");
        }) == 0);
}

OVER_BOTH("one that goes in the middle of a step leaves it to its owner") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto buckets = ringlet::make_bucketer<int>(comm, sizes, ringlet::sum{}, small);
          {
            ringlet::progress_thread progress(comm, buckets);
            progress.start();
            for (std::size_t i = 0; i < 5; ++i) buckets.ready(i);
          }
          for (std::size_t i = 5; i < buckets.size(); ++i) buckets.ready(i);
          buckets.wait();
        }) == 0);
}
