// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/gather_scatter.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "../over_both.hpp"

using namespace tests;

OVER_BOTH("chunks go to the root and come back, whoever it is, also when they are uneven, empty or large") {
  CHECK(on<Ranks>(3, [](auto& comm) {
          auto const me = static_cast<std::size_t>(comm.rank());
          for (std::size_t count : {0, 1, 3, 11, 300'001})
            for (int root = 0; root < 3; ++root) {
              auto const chunks = comm.chunks(count);
              std::vector<int> whole(comm.rank() == root ? count : 0), part(chunks.length(me)), all(count);
              std::iota(all.begin(), all.end(), root);
              std::iota(part.begin(), part.end(), root + static_cast<int>(chunks.offset(me)));
              auto const given = part;
              ringlet::gather(comm, part, whole, root);
              expect(comm.rank() != root || whole == all, "all chunks at the root");
              part.assign(part.size(), -1);
              ringlet::scatter(comm, whole, part, root);
              expect(part == given, "each rank's chunk");
              // In place at the root.
              auto const mine = std::span(whole).subspan(comm.rank() == root ? chunks.offset(me) : 0,
                                                         comm.rank() == root ? part.size() : 0);
              ringlet::gather(comm, comm.rank() == root ? std::span<int const>(mine) : std::span<int const>(part),
                              whole, root);
              expect(comm.rank() != root || whole == all, "all chunks at the root, whose own was there");
            }
        }) == 0);
}

OVER_BOTH("counts that do not fit are refused, or told by both sides") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          std::vector<int> whole(5), part(3);
          expect(error_of([&] { ringlet::gather(comm, part, whole, 2); }), errc::invalid_argument,
                 "the root is rank 2");
          if (comm.rank() == 1) {
            expect(error_of([&] { ringlet::gather(comm, part, whole, 1); }), errc::invalid_argument,
                   "the root's input has 3 elements, expected 2");
            expect(error_of([&] { ringlet::scatter(comm, whole, part, 1); }), errc::invalid_argument,
                   "the root's output has 3 elements, expected 2");
          }
          auto const e = error_of([&] {
            for (;;) ringlet::gather(comm, std::span<int const>(part).first(2), whole, 1);  // rank 0's chunk has 3
          });
          expect(e, errc::mismatch, "rank 1 called message of 3 int32 (call 1), but rank 0 called message of 2 int32");
        }) == 0);
}
