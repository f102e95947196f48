// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/all_gather.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "../over_both.hpp"

using namespace tests;

OVER_BOTH("every rank gets what all ranks gave, by rank; the first chunks are longer where the count does not divide") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          std::vector<int> const in = comm.rank() == 0 ? std::vector{1, 2} : std::vector{3};
          std::vector<int> out(3), in_place = comm.rank() == 0 ? std::vector{1, 2, 0} : std::vector{0, 0, 3};
          ringlet::all_gather(comm, in, out);
          expect(out == std::vector{1, 2, 3}, "the buffer");
          ringlet::all_gather(comm, in_place);
          expect(in_place == std::vector{1, 2, 3}, "the buffer, in place");
          out.assign(3, 0);
          ringlet::async_all_gather(comm, in, out).wait();
          expect(out == std::vector{1, 2, 3}, "the buffer, started and waited for");
        }) == 0);
}

OVER_BOTH("bytes arrive as they are, NaNs and negative zeros too") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          float const signalling = std::numeric_limits<float>::signaling_NaN();
          std::vector<float> in{signalling, -0.0F}, out(4);
          ringlet::all_gather(comm, in, out);
          expect(std::memcmp(&out[0], &in[0], 8) == 0 && std::memcmp(&out[2], &in[0], 8) == 0, "the bits");
        }) == 0);
}

OVER_BOTH("what travels as a smaller type is the same on all ranks, the giver's included") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          for (std::size_t count : {std::size_t{2}, std::size_t{40'000}}) {
            std::vector<float> x(count, 1.0F + 1.0F / 1024);
            ringlet::all_gather(comm, x, ringlet::travel_as<ringlet::bfloat16>(ringlet::keep{}));
            expect(x == std::vector<float>(count, 1.0F), "the values");
          }
        }) == 0);
}
