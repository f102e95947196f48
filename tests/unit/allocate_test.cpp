// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/allocate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "../over_both.hpp"
#include "ringlet/all_reduce.hpp"

using namespace tests;

OVER_BOTH("memory comes zeroed, aligned to a page, and operations take it") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          for (int i = 0; i < 3; ++i) {  // also memory that was used before
            auto const x = comm.template allocate<int>(100'000);
            expect(x.size() == 100'000 && reinterpret_cast<std::uintptr_t>(x.data()) % 4096 == 0, "size or alignment");
            expect(std::all_of(x.begin(), x.end(), [](int v) { return v == 0; }), "zeros");
            std::fill(x.begin(), x.end(), 1);
            ringlet::all_reduce(comm, x);
            expect(std::all_of(x.begin(), x.end(), [](int v) { return v == 2; }), "the sums");
          }
        }) == 0);
}

OVER_BOTH("several at once, given back in another order on each rank") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          for (int i = 0; i < 20; ++i) {
            std::optional a(comm.template allocate<int>(10'000)), b(comm.template allocate<int>(20'000));
            (*a)[9'999] = 1, (*b)[19'999] = 2;
            (comm.rank() == 0 ? a : b).reset();
            auto const c = comm.template allocate<int>(5'000);
            c[0] = 3;
            ringlet::all_reduce(comm, c);
            expect(c[0] == 6, "the sum in the new one");
            auto const& kept = comm.rank() == 0 ? *b : *a;
            ringlet::all_reduce(comm, std::span(kept.data(), 10'000));  // other windows on other ranks
            expect(kept[9'999] == 1, "the sum in what was kept");
          }
        }) == 0);
}

OVER_BOTH("an allocation can be moved, and gives back what it had") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto a = comm.template allocate<int>(10);
          auto b = comm.template allocate<int>(20);
          int* const at = a.data();
          auto c = std::move(a);
          expect(c.data() == at && c.size() == 10 && a.data() == nullptr && a.size() == 0, "move");
          b = std::move(c);
          expect(b.data() == at && b.size() == 10, "assignment");
          ringlet::all_reduce(comm, b);
        }) == 0);
}

OVER_BOTH("nothing may be allocated") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto const none = comm.template allocate<int>(0);
          expect(none.size() == 0 && none.begin() == none.end(), "none");
          ringlet::all_reduce(comm, none);
        }) == 0);
}

OVER_BOTH("more than memory can hold is refused in words") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          expect(error_of([&] { comm.template allocate<double>(static_cast<std::size_t>(-1) / 8); }),
                 errc::invalid_argument, "more than memory can hold");
          ringlet::all_reduce(comm, std::vector<int>{1});
        }) == 0);
}

TEST_CASE("other counts on other ranks are an error on all, naming ranks and bytes") {
  CHECK(on<processes<ringlet::shared_memory>>(2, [](auto& comm) {
          expect(error_of([&] { comm.template allocate<int>(comm.rank() == 0 ? 10 : 11); }), errc::mismatch,
                 "rank 1 allocates 44 bytes, rank 0 40");
        }) == 0);
}

TEST_CASE("shared memory that is not there is refused with the bytes needed and available") {
  CHECK(on<processes<ringlet::shared_memory>>(2, [](auto& comm) {
          auto const e = error_of([&] { comm.template allocate<char>(std::size_t{1} << 46); });
          expect(e, errc::out_of_memory, "needs 70368744177664 bytes");
          expect(e, errc::out_of_memory, "are available");
          std::vector<int> x{1};
          ringlet::all_reduce(comm, x);
          expect(x[0] == 2, "the communicator is still good");
        }) == 0);
}
