// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/bucketer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "../../examples/07_own_transport.hpp"
#include "../over_both.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/split.hpp"

using namespace tests;
using ringlet::status;
using counts = std::vector<std::size_t>;

namespace {

// What rank `rank` contributes in step `step` to element `e` of gradient `i`: sums are not exact in float.
float value(int rank, int step, std::size_t i, std::size_t e) {
  return 1.0F / static_cast<float>(1 + static_cast<std::size_t>(rank + 3 * step) + 5 * i + e % 97);
}

counts const sizes{700, 0, 5'001, 40'000, 3, 12'345, 1};
constexpr ringlet::bucket_bytes small{4 * 1'000, 4 * 20'000};

// Runs a step in which gradients become ready in the given order, and compares it with an all_reduce a bucket.
template <class Buckets, class Comm>
void check_step(Comm& comm, Buckets& buckets, int step, counts const& order) {
  for (std::size_t i : order) {
    auto const g = buckets.gradient(i);
    for (std::size_t e = 0; e < g.size(); ++e) g[e] = value(comm.rank(), step, i, e);
    buckets.ready(i);
    for (int polls = comm.rank(); polls > 0; --polls) buckets.poll();  // each rank in its own rhythm
  }
  buckets.wait();
  std::size_t i = 0;
  for (std::size_t b = 0; b < buckets.buckets(); ++b) {
    std::vector<float> expected;
    for (; expected.size() < buckets.bucket(b).size(); ++i)
      for (std::size_t e = 0; e < sizes[i]; ++e) expected.push_back(value(comm.rank(), step, i, e));
    ringlet::all_reduce(comm, expected, ringlet::average{});
    expect(std::memcmp(buckets.bucket(b).data(), expected.data(), expected.size() * sizeof(float)) == 0,
           "bucket " + std::to_string(b) + " of step " + std::to_string(step));
  }
}

}  // namespace

OVER_BOTH("step after step, the gradients become what an all_reduce of each bucket gives, bit for bit") {
  CHECK(on<Ranks>(3, [](auto& comm) {
          auto buckets = ringlet::make_bucketer<float>(comm, sizes, ringlet::average{}, small);
          expect(buckets.size() == sizes.size() && buckets.buckets() == 4, "the numbers");
          for (int step = 0; step < 4; ++step) check_step(comm, buckets, step, {0, 1, 2, 3, 4, 5, 6});
        }) == 0);
}

TEST_CASE("and so over a transport that has links, and no memory of its own") {
  CHECK(on<tests::processes<sockets>>(3, [](auto& comm) {
          auto buckets = ringlet::make_bucketer<float>(comm, sizes, ringlet::average{}, small);
          for (int step = 0; step < 3; ++step) check_step(comm, buckets, step, {6, 0, 1, 2, 3, 5, 4});
        }) == 0);
}

OVER_BOTH("gradients may become ready in any order, another one on each rank") {
  CHECK(on<Ranks>(3, [](auto& comm) {
          auto buckets = ringlet::make_bucketer<float>(comm, sizes, ringlet::average{}, small);
          counts order{0, 1, 2, 3, 4, 5, 6};
          for (int step = 0; step < 6; ++step) {
            for (int r = 0; r <= comm.rank(); ++r) std::next_permutation(order.begin(), order.end(), std::greater<>());
            check_step(comm, buckets, step, order);
          }
        }) == 0);
}

OVER_BOTH("sums of integers are those of one all_reduce") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto buckets = ringlet::make_bucketer<std::uint16_t>(comm, sizes);
          std::vector<std::uint16_t> all;
          for (std::size_t i = 0; i < buckets.size(); ++i) {
            for (auto& e : buckets.gradient(i))
              all.push_back(e = static_cast<std::uint16_t>(all.size() * 7 + static_cast<std::size_t>(comm.rank())));
            buckets.ready(i);
          }
          buckets.wait();
          ringlet::all_reduce(comm, all);
          auto next = all.begin();
          for (std::size_t i = 0; i < buckets.size(); ++i) {
            auto const g = buckets.gradient(i);
            expect(std::equal(g.begin(), g.end(), next), "gradient " + std::to_string(i));
            next += static_cast<std::ptrdiff_t>(g.size());
          }
        }) == 0);
}

OVER_BOTH("gradients have their counts, lie in the memory of the communicator, and buckets share no cache line") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          struct rgb {
            std::uint8_t c[3];
          };
          auto buckets = ringlet::make_bucketer<rgb>(comm, sizes, ringlet::keep{}, small);
          for (std::size_t i = 0; i < sizes.size(); ++i) expect(buckets.gradient(i).size() == sizes[i], "the count");
          for (std::size_t b = 0; b < buckets.buckets(); ++b)
            expect(reinterpret_cast<std::uintptr_t>(buckets.bucket(b).data()) % 128 == 0, "a bucket's place");
        }) == 0);
}

OVER_BOTH("a bucket starts when it is complete and all before it have started, and polling carries it through") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto buckets = ringlet::make_bucketer<int>(comm, counts{1, 1, 1, 2}, ringlet::sum{}, {4, 8});
          expect(buckets.buckets() == 3, "the plan");  // 0, 1 with 2, 3
          auto write = [&](std::size_t i) {
            for (int& e : buckets.gradient(i)) e = 1;
            buckets.ready(i);
          };
          auto now = [&](std::vector<int> const& values, std::string const& when) {  // once nothing is under way
            do {
              if (buckets.poll() == status::failed) buckets.wait();
              buckets.wake();  // so that it does not sleep
            } while (!buckets.doze());
            for (std::size_t i = 0; i < 4; ++i) expect(buckets.gradient(i)[0] == values[i], when);
          };
          now({0, 0, 0, 0}, "before the first");
          write(2), now({0, 0, 1, 0}, "half a bucket");
          write(1), now({0, 1, 1, 0}, "a bucket before its turn");
          write(0), now({2, 2, 2, 0}, "two buckets");
          write(3), now({2, 2, 2, 2}, "all");
          expect(buckets.poll() == status::ready, "the status");
          buckets.wait();
          expect(buckets.poll() == status::pending, "the next step");
        }) == 0);
}

OVER_BOTH("threads may say that gradients are ready while another polls") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto buckets = ringlet::make_bucketer<int>(comm, counts(64, 500), ringlet::sum{}, {4'000, 8'000});
          for (int step = 1; step < 4; ++step) {
            std::vector<std::thread> workers;
            for (std::size_t t = 0; t < 4; ++t)
              workers.emplace_back([&, t] {
                for (std::size_t i = t; i < buckets.size(); i += 4) {
                  for (int& e : buckets.gradient(i)) e = step;
                  buckets.ready(i);
                }
              });
            while (buckets.poll() == status::pending) std::this_thread::yield();
            for (auto& w : workers) w.join();
            buckets.wait();
            for (std::size_t i = 0; i < buckets.size(); ++i)
              for (int const e : buckets.gradient(i)) expect(e == 2 * step, "the sum");
          }
        }) == 0);
}

OVER_BOTH("no gradients, and empty ones, are fine") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto none = ringlet::make_bucketer<float>(comm, counts{});
          auto empty = ringlet::make_bucketer<float>(comm, counts{0, 0});
          for (int step = 0; step < 2; ++step) {
            expect(none.size() == 0 && none.poll() == status::ready, "nothing is ready");
            none.wait();
            empty.ready(1), empty.ready(0);
            empty.wait();
          }
          ringlet::barrier(comm);
        }) == 0);
}

OVER_BOTH("wrong uses are refused in words, and the step goes on") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto buckets = ringlet::make_bucketer<int>(comm, counts{3, 4});
          expect(error_of([&] { buckets.ready(2); }), errc::invalid_argument,
                 "there is no gradient 2: this bucketer has 2");
          expect(error_of([&] { buckets.gradient(2); }), errc::invalid_argument, "there is no gradient 2");
          buckets.gradient(0)[0] = 1;
          buckets.ready(0);
          expect(error_of([&] { buckets.ready(0); }), errc::invalid_argument, "gradient 0 is ready twice in one step");
          expect(error_of([&] { buckets.wait(); }), errc::invalid_argument, "gradient 1 of 2 is not ready");
          buckets.ready(1);
          buckets.wait();
          expect(buckets.gradient(0)[0] == 2, "the sum");
        }) == 0);
}

OVER_BOTH("ranks whose gradients take other memory find out at once") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          counts const mine{8, comm.rank() == 0 ? 8U : 9U};
          expect(error_of([&] { auto const b = ringlet::make_bucketer<int>(comm, mine); }), errc::mismatch, "bytes");
        }) == 0);
}

OVER_BOTH("ranks whose buckets differ find out at the first") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          counts const mine = comm.rank() == 0 ? counts{8, 32, 8} : counts{32, 8, 8};
          auto buckets = ringlet::make_bucketer<int>(comm, mine, ringlet::sum{}, {1, 1});
          for (std::size_t i = 0; i < 3; ++i) buckets.ready(i);
          auto const e = error_of([&] { buckets.wait(); });
          expect(e, errc::mismatch, "all_reduce of 8 int32");
          expect(e, errc::mismatch, "all_reduce of 32 int32");
        }) == 0);
}

OVER_BOTH("a failure ends a step on all ranks with its reason, by polling or not") {
  for (bool const polls : {false, true})
    CHECK(on<Ranks>(3, [&](auto& comm) {
            auto aside = comm.split(0);
            auto buckets = ringlet::make_bucketer<int>(comm, counts{10'000, 10'000}, ringlet::sum{}, {1, 1});
            buckets.ready(0);
            ringlet::barrier(*aside);  // all have their memory
            if (comm.rank() == 1) return comm.abort("had enough");
            if (polls)
              while (buckets.poll() == status::pending) std::this_thread::yield();
            else
              buckets.ready(1);
            expect(error_of([&] { buckets.wait(); }), errc::aborted, "rank 1: had enough");
          }) == 0);
}

OVER_BOTH("a failure before the first bucket starts is told with its reason, too") {
  for (bool const polls : {false, true})
    CHECK(on<Ranks>(2, [&](auto& comm) {
            auto aside = comm.split(0);
            auto buckets = ringlet::make_bucketer<int>(comm, counts{10'000});
            ringlet::barrier(*aside);  // both have their memory
            if (comm.rank() == 1) return comm.abort("had enough");
            while (comm.transport().told() == nullptr) std::this_thread::yield();
            buckets.ready(0);
            if (polls) expect(buckets.poll() == status::failed && buckets.poll() == status::failed, "the status");
            expect(error_of([&] { buckets.wait(); }), errc::aborted, "rank 1: had enough");
          }) == 0);
}

OVER_BOTH("one that goes in the middle of a step ends it on all ranks") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto aside = comm.split(0);
          {
            auto buckets = ringlet::make_bucketer<int>(comm, counts{10'000, 1}, ringlet::sum{}, {1, 1});
            ringlet::barrier(*aside);  // both have their memory
            buckets.ready(0);
            if (comm.rank() == 0) {
              buckets.poll();
            } else {
              ringlet::barrier(*aside);  // the other has gone
              buckets.ready(1);
              expect(error_of([&] { buckets.wait(); }), errc::aborted, "rank 0 dropped an operation before its end");
            }
          }
          if (comm.rank() == 0) ringlet::barrier(*aside);
        }) == 0);
}
