// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/broadcast.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "../over_both.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/barrier.hpp"

using namespace tests;

OVER_BOTH("every form of the call") {
  CHECK(on<Ranks>(3, [](auto& comm) {
          bool const root = comm.rank() == 1;
          std::vector<int> const in{1, 2};
          std::vector<int> out(2), in_place = root ? in : out;
          std::array<int, 2> fixed{};
          ringlet::broadcast(comm, in, out, 1);
          expect(out == in, "a vector");
          ringlet::broadcast(comm, root ? std::span(in) : std::span<int const>(), fixed, 1);
          expect(fixed == std::array{1, 2}, "others than the root need no input");
          ringlet::broadcast(comm, in_place, 1);
          expect(in_place == in, "in place");
          in_place.assign(2, root ? 7 : 0);
          ringlet::async_broadcast(comm, std::span(in_place), 1).wait();
          expect(in_place == std::vector{7, 7}, "started and waited for");
          std::vector<float> x{root ? 1.0F / 3 : 0};
          ringlet::broadcast(comm, x, 1, ringlet::travel_as<ringlet::bfloat16>(ringlet::keep{}));
          expect(x[0] == static_cast<float>(ringlet::bfloat16(1.0F / 3)), "what a bfloat16 can hold, at the root too");
        }) == 0);
}

OVER_BOTH("broadcasts from one root after the other, of all sizes, overtake nobody") {
  CHECK(on<Ranks>(4, [](auto& comm) {
          auto const memory = comm.template allocate<int>(100'000);
          std::vector<int> ordinary(100'000);
          for (int turn = 0; turn < 200; ++turn) {
            std::size_t const count = std::array<std::size_t, 3>{3, 1'000, 100'000}[static_cast<std::size_t>(turn) % 3];
            std::span<int> const buffer(turn % 2 == 0 ? memory.data() : ordinary.data(), count);
            int const root = turn % 7 % 4;
            if (comm.rank() == root)
              for (int& x : buffer) x = turn;
            ringlet::broadcast(comm, buffer, root);
            expect(buffer[0] == turn && buffer[count / 2] == turn && buffer[count - 1] == turn, "the root's values");
          }
          ringlet::barrier(comm);
        }) == 0);
}

OVER_BOTH("on boards, values do not stand where it is said how they come") {
  ringlet::connect_options<typename Ranks::transport> options;
  options.select.one_shot_bytes = 0;
  auto const all_sizes = [](auto& comm) {
    for (std::size_t count = 0; count < 40; ++count) {
      std::vector<int> x(count, 5 - comm.rank());
      ringlet::broadcast(comm, x, 1);
      expect(x == std::vector<int>(count, 4), "the root's values");
    }
  };
  CHECK(on<Ranks>(2, all_sizes, options) == 0);
}

OVER_BOTH("ranks that name different roots hear of it") {
  CHECK(on<Ranks>(3, [](auto& comm) {
          std::vector<float> x(4);
          auto const e = error_of([&] { ringlet::broadcast(comm, x, comm.rank() == 2 ? 1 : 0); });
          expect(e, errc::mismatch, "rank 2 called broadcast of 4 float32, from rank 1 (call 1)");
          expect(e, errc::mismatch, "called broadcast of 4 float32, from rank 0 (call 1)");
        }) == 0);
}

OVER_BOTH("wrong arguments are refused, and nothing is lost") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          std::vector<float> x(4, 1.0F), y(3);
          expect(error_of([&] { ringlet::broadcast(comm, x, 2); }), errc::invalid_argument,
                 "the root is rank 2, expected one of 0 to 1");
          expect(error_of([&] { ringlet::broadcast(comm, x, -1); }), errc::invalid_argument, "the root is rank -1");
          if (comm.rank() == 1)
            expect(error_of([&] { ringlet::broadcast(comm, x, y, 1); }), errc::invalid_argument,
                   "the output has 3 elements, the input 4");
          ringlet::broadcast(comm, x, 1);
        }) == 0);
}
