// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/all_reduce.hpp"

#include <doctest/doctest.h>

#include <array>
#include <span>
#include <vector>

#include "../over_both.hpp"

using namespace tests;

OVER_BOTH("every form of the call") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          std::vector<int> const in{1, 2 + comm.rank()};
          std::vector<int> out(2), in_place = in;
          std::array<int, 2> fixed{};
          int plain[2] = {};
          ringlet::all_reduce(comm, in, out);
          expect(out == std::vector{2, 5}, "sum is what is done unless told otherwise");
          ringlet::all_reduce(comm, in, out, ringlet::maximum{});
          expect(out == std::vector{1, 3}, "an operator");
          ringlet::all_reduce(comm, in, fixed);
          expect(fixed == std::array{2, 5}, "an array");
          ringlet::all_reduce(comm, in, plain);
          expect(plain[0] == 2 && plain[1] == 5, "a plain array");
          ringlet::all_reduce(comm, std::span(in), std::span(out));
          expect(out == std::vector{2, 5}, "spans");
          ringlet::all_reduce(comm, in_place);
          expect(in_place == std::vector{2, 5}, "in place");
          ringlet::all_reduce(comm, std::span(in_place), ringlet::minimum{});
          expect(in_place == std::vector{2, 5}, "in place with an operator");
          ringlet::async_all_reduce(comm, in, out, ringlet::product{}).wait();
          expect(out == std::vector{1, 6}, "started and waited for");
        }) == 0);
}

OVER_BOTH("chunk c is added up in the order of ranks c+1, c+2, ..., c, whatever the algorithm") {
  // 1e8 swallows a 1 that is added to it: each order gives another sum.
  CHECK(on<Ranks>(3, [](auto& comm) {
          constexpr float given[] = {1e8F, 1.0F, -1e8F};
          constexpr float expected[] = {(1.0F + -1e8F) + 1e8F, (-1e8F + 1e8F) + 1.0F, (1e8F + 1.0F) + -1e8F};
          for (std::size_t count : {std::size_t{3}, std::size_t{30'000}}) {  // in one shot, and direct or in a ring
            std::vector<float> x(count, given[comm.rank()]);
            ringlet::all_reduce(comm, x);
            for (std::size_t c = 0; c < 3; ++c)
              expect(x[comm.chunks(count).offset(c)] == expected[c], "the sum of chunk " + std::to_string(c));
          }
        }) == 0);
}

OVER_BOTH("ranks may give scaled_sum different factors, whatever the algorithm") {
  CHECK(on<Ranks>(3, [](auto& comm) {
          for (std::size_t count : {1, 30'000}) {
            std::vector<float> x(count, 1.0F);
            ringlet::all_reduce(comm, x, ringlet::scaled_sum{static_cast<float>(1 << comm.rank())});
            expect(x[0] == 7.0F && x[count - 1] == 7.0F, "the weighted sum");
          }
        }) == 0);
}
