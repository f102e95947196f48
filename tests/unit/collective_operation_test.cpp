// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/collective_operation.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "../over_both.hpp"
#include "ringlet/all_gather.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/reduce_scatter.hpp"
#include "ringlet/split.hpp"

using namespace tests;
using ringlet::status;

namespace {

// What the wrong call throws; afterwards the communicator must still be good.
template <class Comm, class F>
void refused(Comm& comm, F&& wrong, std::string const& words) {
  expect(error_of(wrong), errc::invalid_argument, words);
  std::vector<int> x{1};
  ringlet::all_reduce(comm, x);
  expect(x[0] == comm.size(), "the operation after a refused one");
}

// An element whose size does not divide that of a row.
struct triple {
  float a, b, c;
};
struct sum_of_triples {
  using commutative_and_associative = std::true_type;
  triple operator()(triple const& x, triple const& y) const { return {x.a + y.a, x.b + y.b, x.c + y.c}; }
};

// An operation that is made where it stays.
template <class Start>
struct in_place {
  explicit in_place(Start const& start) : operation(start()) {}
  std::invoke_result_t<Start const&> operation;
};

}  // namespace

OVER_BOTH("buffers of the wrong length are refused before anything is sent") {
  CHECK(on<Ranks>(3, [](auto& comm) {
          std::vector<int> ten(10), nine(9), one(1);
          refused(
              comm, [&] { ringlet::all_reduce(comm, ten, nine); }, "the output has 9 elements");
          refused(
              comm, [&] { ringlet::reduce_scatter(comm, ten, nine); }, "the output has 9 elements");
          refused(
              comm, [&] { ringlet::all_gather(comm, one, ten); }, "the input has 1 elements");
        }) == 0);
}

OVER_BOTH("C04: a null pointer is refused unless the count is 0") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          std::span<int> const nothing(static_cast<int*>(nullptr), 3), empty;
          std::vector<int> three(3);
          refused(
              comm, [&] { ringlet::all_reduce(comm, nothing, three); }, "null");
          refused(
              comm, [&] { ringlet::all_reduce(comm, three, nothing); }, "null");
          ringlet::all_reduce(comm, empty);
          ringlet::reduce_scatter(comm, empty);
          ringlet::all_gather(comm, empty);
        }) == 0);
}

OVER_BOTH("buffers that overlap without being the same are refused") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          std::vector<int> memory(20);
          std::span<int> const all(memory), first = all.first(10), second = all.subspan(5, 10);
          refused(
              comm, [&] { ringlet::all_reduce(comm, first, second); }, "overlap");
          refused(
              comm, [&] { ringlet::reduce_scatter(comm, first, first.subspan(2, 5)); }, "overlap");
          refused(
              comm, [&] { ringlet::all_gather(comm, first.subspan(2, 5), first); }, "overlap");
        }) == 0);
}

OVER_BOTH("a buffer that is not aligned for its element is refused") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          alignas(8) std::byte memory[64] = {};
          std::span<double> const crooked(reinterpret_cast<double*>(memory + 4), 4);
          refused(
              comm, [&] { ringlet::all_reduce(comm, crooked); }, "not aligned to the 8 bytes");
        }) == 0);
}

OVER_BOTH("an element that no slot can hold is refused") {
  struct big {
    char bytes[200];
  };
  CHECK(on<Ranks>(
            2,
            [](auto& comm) {
              std::vector<big> x(2);
              refused(
                  comm, [&] { ringlet::all_gather(comm, x); }, "200 bytes is larger than a slot of 128");
            },
            with_slots<typename Ranks::transport>(2, 128)) == 0);
}

OVER_BOTH("C40: other counts are an error on all ranks, naming ranks and counts") {
  CHECK(on<Ranks>(8, [](auto& comm) {
          std::vector<float> x(comm.rank() == 0 ? 409'600 : 409'598);
          auto const e = error_of([&] { ringlet::all_reduce(comm, x); });
          expect(e, errc::mismatch, "409600 float32");
          expect(e, errc::mismatch, "409598 float32");
          expect(e, errc::mismatch, "rank 0");
        }) == 0);
}

OVER_BOTH("C42: other elements are an error on all ranks, naming the elements") {
  CHECK(on<Ranks>(3, [](auto& comm) {
          std::vector<ringlet::bfloat16> half(1, ringlet::bfloat16(1.0F));
          std::vector<float> whole(1, 1.0F);
          auto const e = error_of([&] {
            if (comm.rank() == 0)
              ringlet::all_reduce(comm, half);
            else
              ringlet::all_reduce(comm, whole);
          });
          expect(e, errc::mismatch, "bfloat16");
          expect(e, errc::mismatch, "float32");
        }) == 0);
}

OVER_BOTH("C43: other collectives are an error on all ranks, naming calls and their numbers") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          std::vector<int> x(10'000);
          ringlet::barrier(comm);
          auto const e = error_of([&] {
            if (comm.rank() == 0)
              ringlet::all_reduce(comm, x);
            else
              ringlet::all_gather(comm, x);
          });
          expect(e, errc::mismatch, "all_reduce of 10000 int32, sum (call 2)");
          expect(e, errc::mismatch, "all_gather of 10000 int32 (call 2)");
        }) == 0);
}

OVER_BOTH("other operators are an error on all ranks, naming them") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          std::vector<float> x(7);
          auto const e = error_of([&] {
            if (comm.rank() == 0)
              ringlet::all_reduce(comm, x, ringlet::maximum{});
            else
              ringlet::all_reduce(comm, x, ringlet::scaled_sum{0.5F});
          });
          expect(e, errc::mismatch, "maximum");
          expect(e, errc::mismatch, "scaled_sum");
        }) == 0);
}

OVER_BOTH("polling drives an operation, and all that were started before it") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          std::vector<int> a(5'000, 1), b(60'000, 2), c{3};
          auto first = ringlet::async_all_reduce(comm, a);
          auto second = ringlet::async_all_reduce(comm, b);
          auto third = ringlet::async_all_reduce(comm, c);
          while (third.poll() == status::pending) std::this_thread::yield();
          expect(first.poll() == status::ready && second.poll() == status::ready && third.poll() == status::ready,
                 "the states");
          expect(a[4'999] == 2 && b[59'999] == 4 && c[0] == 6, "the sums");
          third.wait();
          third.cancel();  // too late to matter
          ringlet::barrier(comm);
        }) == 0);
}

OVER_BOTH("operations started together may be waited for in any order") {
  CHECK(on<Ranks>(
            3,
            [](auto& comm) {
              std::vector<int> a(20'011, 1), b(3, comm.rank()), c(9'001, 2);
              auto first = ringlet::async_all_reduce(comm, a);
              auto second = ringlet::async_all_gather(comm, b);
              auto third = ringlet::async_reduce_scatter(comm, c);
              auto fourth = ringlet::async_barrier(comm);
              if (comm.rank() == 1)
                third.wait(), second.wait(), fourth.wait(), first.wait();
              else
                fourth.wait(), third.wait(), second.wait(), first.wait();
              expect(a[20'010] == 3 && b[0] == 0 && b[1] == 1 && b[2] == 2, "the results");
              expect(c[comm.chunks(9'001).offset(static_cast<std::size_t>(comm.rank()))] == 6, "the chunk");
            },
            with_slots<typename Ranks::transport>(3, 512)) == 0);
}

OVER_BOTH("cancelling ends this operation, those after it, and the peers'") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto aside = comm.split(0);
          std::vector<int> x(30'000), y(1);
          auto first = ringlet::async_all_reduce(comm, x);
          auto second = ringlet::async_all_reduce(comm, y);
          ringlet::barrier(*aside);  // both have started theirs
          if (comm.rank() == 0) {
            first.cancel();
            expect(first.poll() == status::failed, "the status");
          }
          expect(error_of([&] { second.wait(); }), errc::aborted, "rank 0 cancelled an operation");
          expect(error_of([&] { first.wait(); }), errc::aborted, "rank 0 cancelled an operation");
        }) == 0);
}

OVER_BOTH("an operation that is dropped before its end ends the peers'") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          std::vector<int> x(30'000);
          if (comm.rank() == 0) {
            { auto const dropped = ringlet::async_all_reduce(comm, x); }
            expect(error_of([&] { ringlet::barrier(comm); }), errc::not_connected,
                   "rank 0 dropped an operation before its end");
          } else {
            expect(error_of([&] { ringlet::all_reduce(comm, x); }), errc::aborted,
                   "rank 0 dropped an operation before its end");
          }
        }) == 0);
}

OVER_BOTH("one dropped from the middle leaves the order of the others whole") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto aside = comm.split(0);
          std::vector<int> a{1}, b{2}, c{3};
          auto first = ringlet::async_all_reduce(comm, a);
          auto start_second = [&] { return ringlet::async_all_reduce(comm, b); };
          auto second = std::make_unique<in_place<decltype(start_second)>>(start_second);
          auto third = ringlet::async_all_reduce(comm, c);
          ringlet::barrier(*aside);  // both have started theirs
          second.reset();
          expect(error_of([&] { third.wait(); }), errc::aborted, "dropped");
          expect(error_of([&] { first.wait(); }), errc::aborted, "dropped");
        }) == 0);
}

OVER_BOTH("an exception in one rank ends what the others wait for") {
  CHECK(on<Ranks>(3, [](auto& comm) {
          std::vector<int> x(30'000);
          try {
            if (comm.rank() == 1) {
              auto const running = ringlet::async_all_reduce(comm, x);
              throw std::runtime_error("something else went wrong");
            }
            ringlet::all_reduce(comm, x);
            expect(false, "no error");
          } catch (ringlet::error const& e) {
            expect(e, errc::aborted, "rank 1 dropped an operation before its end");
          } catch (std::runtime_error const& e) {
            expect(comm.rank() == 1, e.what());
          }
        }) == 0);
}

// Buffers of such size are stored past the caches, in pieces, and where there are two ranks, in both outputs at once.
OVER_BOTH("buffers larger than the caches, wherever they begin") {
  for (int size : {2, 3})
    CHECK(on<Ranks>(size, [](auto& comm) {
            std::size_t const count = ringlet::larger_than_caches / sizeof(int) + 5,
                              me = static_cast<std::size_t>(comm.rank());
            auto const chunks = comm.chunks(count);
            auto const in = comm.template allocate<int>(count), out = comm.template allocate<int>(count + 32);
            auto const wrong = [&](auto const& values, auto value) {
              std::size_t n = 0;
              for (std::size_t i = 0; i < values.size(); ++i) n += values[i] != value(i);
              return n;
            };
            auto const given = [](int rank, std::size_t i) { return static_cast<int>(i) * (rank + 1); };
            auto const sum = [&](std::size_t i) { return given(comm.size() * (comm.size() + 1) / 2 - 1, i); };
            for (std::size_t shift :
                 {me, 16 + 0 * me}) {  // at another place in a cache line on each rank, and at the same
              for (std::size_t i = 0; i < count; ++i) in[i] = given(comm.rank(), i);
              auto const all = std::span(out).subspan(shift, count), chunk = all.subspan(0, chunks.length(me));
              ringlet::all_reduce(comm, in, all);
              expect(wrong(all, sum) == 0, "all_reduce");
              ringlet::reduce_scatter(comm, in, chunk);
              expect(wrong(chunk, [&](std::size_t i) { return sum(chunks.offset(me) + i); }) == 0, "reduce_scatter");
              ringlet::barrier(comm);
              ringlet::all_gather(comm, std::span(in).subspan(chunks.offset(me), chunks.length(me)), all);
              expect(wrong(all,
                           [&](std::size_t i) {
                             int rank = 0;
                             while (chunks.offset(static_cast<std::size_t>(rank) + 1) <= i) ++rank;
                             return given(rank, i);
                           }) == 0,
                     "all_gather");
              ringlet::all_reduce(comm, in);
              expect(wrong(std::span(in), sum) == 0, "all_reduce in place");
            }
          }) == 0);
}

// One thread is both ranks, so that it is this order: rank 1 has ended the first operation and shown its input to the
// next when rank 0 collects the results of the first.
TEST_CASE("the next operation's input leaves alone what others still collect, whatever its elements") {
  ringlet::memory_store store;
  std::optional<ringlet::communicator<ringlet::shared_memory>> comm[2];
  auto const come = [&](int rank) {
    comm[rank] = ringlet::connect<ringlet::shared_memory>(ringlet::bootstrap<ringlet::memory_store>{rank, 2, store});
  };
  std::thread other(come, 0);
  come(1);
  other.join();
  std::vector<triple> first[2] = {{16'000, {1, 1, 1}}, {16'000, {2, 2, 2}}};
  std::vector<float> second[2] = {std::vector<float>(1 << 16, 100.0F), std::vector<float>(1 << 16, 200.0F)};
  auto a = ringlet::async_all_reduce(*comm[0], first[0], sum_of_triples{});
  auto b = ringlet::async_all_reduce(*comm[1], first[1], sum_of_triples{});
  while (b.poll() == status::pending && a.poll() == status::pending) continue;
  REQUIRE(b.poll() == status::ready);
  auto d = ringlet::async_all_reduce(*comm[1], second[1]);
  CHECK(d.poll() == status::pending);
  CHECK(a.poll() == status::ready);
  auto c = ringlet::async_all_reduce(*comm[0], second[0]);
  while (c.poll() == status::pending) d.poll();
  d.wait();
  for (int rank : {0, 1}) {
    std::size_t wrong = 0;
    for (triple const& x : first[rank]) wrong += x.a != 3 || x.b != 3 || x.c != 3;
    for (float x : second[rank]) wrong += x != 300;
    CHECK(wrong == 0);
  }
}
