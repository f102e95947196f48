// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/reduce.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "../over_both.hpp"
#include "ringlet/allocate.hpp"

using namespace tests;

OVER_BOTH("every form of the call") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          bool const root = comm.rank() == 1;
          std::vector<int> const in{1, 2 + comm.rank()};
          std::vector<int> out(2), in_place = in;
          std::array<int, 2> fixed{};
          ringlet::reduce(comm, in, out, 1);
          expect(out == (root ? std::vector{2, 5} : std::vector{0, 0}), "sum is what is done unless told otherwise");
          ringlet::reduce(comm, in, root ? std::span(fixed) : std::span<int>(), 1, ringlet::maximum{});
          expect(fixed == (root ? std::array{1, 3} : std::array{0, 0}), "others than the root need no output");
          ringlet::reduce(comm, in_place, 1);
          expect(in_place == (root ? std::vector{2, 5} : in), "in place; the others keep what they had");
          ringlet::async_reduce(comm, std::span(in_place), 0, ringlet::product{}).wait();
          expect(in_place == (root ? std::vector{2, 5} : std::vector{2, 10}), "started and waited for");
        }) == 0);
}

OVER_BOTH("values are added up in the order of ranks root+1, ..., root, whatever the algorithm") {
  // 1e8 swallows a 1 that is added to it: each order gives another sum.
  CHECK(on<Ranks>(3, [](auto& comm) {
          constexpr float given[] = {1e8F, 1.0F, -1e8F};
          constexpr float expected[] = {(1.0F + -1e8F) + 1e8F, (-1e8F + 1e8F) + 1.0F, (1e8F + 1.0F) + -1e8F};
          auto const memory = comm.template allocate<float>(30'000);
          for (int root = 0; root < 3; ++root) {
            std::vector<float> few(3), many(30'000);
            for (std::span<float> x : {std::span(few), std::span(many), std::span(memory.data(), memory.size())}) {
              for (float& value : x) value = given[comm.rank()];
              ringlet::reduce(comm, x, root);
              for (float value : x)
                expect(value == (comm.rank() == root ? expected[root] : given[comm.rank()]), "the sum at the root");
            }
          }
        }) == 0);
}

OVER_BOTH("ranks that name different roots, or reduce where others broadcast, hear of it") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          std::vector<float> x(4);
          auto const e = error_of([&] { ringlet::reduce(comm, x, comm.rank(), ringlet::maximum{}); });
          expect(e, errc::mismatch, "reduce of 4 float32, to rank 1, maximum (call 1)");
        }) == 0);
}

OVER_BOTH("wrong arguments are refused, and nothing is lost") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          std::vector<float> x(4, 1.0F), y(3);
          expect(error_of([&] { ringlet::reduce(comm, x, 2); }), errc::invalid_argument, "the root is rank 2");
          if (comm.rank() == 0)
            expect(error_of([&] { ringlet::reduce(comm, x, y, 0); }), errc::invalid_argument,
                   "the root's output has 3 elements, its input 4");
          ringlet::reduce(comm, x, 1);
          expect(x[0] == (comm.rank() == 1 ? 2.0F : 1.0F), "the sum");
        }) == 0);
}
