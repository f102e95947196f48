// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/reduce_scatter.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "../over_both.hpp"

using namespace tests;

OVER_BOTH("rank r gets chunk r; the first chunks are longer where the count does not divide") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          std::vector<int> const in{1, 2, 3};
          std::vector<int> out(comm.rank() == 0 ? 2 : 1);
          ringlet::reduce_scatter(comm, in, out);
          expect(out == (comm.rank() == 0 ? std::vector{2, 4} : std::vector{6}), "the chunk");
          ringlet::async_reduce_scatter(comm, in, out, ringlet::product{}).wait();
          expect(out == (comm.rank() == 0 ? std::vector{1, 4} : std::vector{9}), "the chunk, with an operator");
        }) == 0);
}

OVER_BOTH("C17: in place the result is where rank r's chunk was, and the other chunks keep what they held") {
  CHECK(on<Ranks>(4, [](auto& comm) {
          for (std::size_t quarter : {std::size_t{1}, std::size_t{5'000}}) {
            std::vector<int> x(4 * quarter, 1 + comm.rank()), expected = x;
            for (std::size_t i = 0; i < quarter; ++i)
              expected[static_cast<std::size_t>(comm.rank()) * quarter + i] = 10;
            ringlet::reduce_scatter(comm, x);
            expect(x == expected, "the buffer");
          }
        }) == 0);
}
