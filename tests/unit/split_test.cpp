// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/split.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "../over_both.hpp"
#include "ringlet/all_gather.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/barrier.hpp"

using namespace tests;

OVER_BOTH("ranks of one color make one communicator, by key, then by rank") {
  CHECK(on<Ranks>(5, [](auto& comm) {
          // Color 0: ranks 0, 2, 4, the last one first. Color 1: ranks 1 and 3 as they were.
          auto part = comm.split(comm.rank() % 2, comm.rank() == 4 ? -1 : 0);
          expect(part.has_value(), "a communicator");
          std::vector<int> const mine{comm.rank()};
          std::vector<int> all(static_cast<std::size_t>(part->size()));
          ringlet::all_gather(*part, mine, all);
          expect(all == (comm.rank() % 2 == 0 ? std::vector{4, 0, 2} : std::vector{1, 3}), "the ranks of the part");
          expect(all[static_cast<std::size_t>(part->rank())] == comm.rank(), "the rank in the part");
        }) == 0);
}

OVER_BOTH("a negative color makes none") {
  CHECK(on<Ranks>(3, [](auto& comm) {
          auto part = comm.split(comm.rank() == 1 ? -1 : 7);
          expect(part.has_value() == (comm.rank() != 1), "who has one");
          std::vector<int> x{1};
          if (part) ringlet::all_reduce(*part, x);
          expect(x[0] == (part ? 2 : 1), "the sum");
          ringlet::barrier(comm);
        }) == 0);
}

OVER_BOTH("the smallest slots do for splitting") {
  CHECK(on<Ranks>(
            3,
            [](auto& comm) {
              auto part = comm.split(comm.rank() / 2);
              std::vector<int> x{1};
              ringlet::all_reduce(*part, x);
              expect(x[0] == (comm.rank() < 2 ? 2 : 1), "the sum");
            },
            with_slots<typename Ranks::transport>(2, 128)) == 0);
}

OVER_BOTH("those who meet to split tell each other values of any length") {
  CHECK(on<Ranks>(
            3,
            [](auto& comm) {
              ringlet::detail::split_meeting meeting(comm, comm.rank() / 2, 0);
              auto const mine = [](int rank) {
                return std::string(rank == 0 ? 700 : 3, static_cast<char>('a' + rank));
              };
              auto const values = meeting.exchange("", mine(comm.rank()), {});
              expect(values == (comm.rank() < 2 ? std::vector{mine(0), mine(1)} : std::vector{mine(2)}), "the values");
            },
            with_slots<typename Ranks::transport>(2, 128)) == 0);
}

OVER_BOTH("C46: parts and whole keep their own order of operations") {
  CHECK(on<Ranks>(4, [](auto& comm) {
          auto part = comm.split(comm.rank() < 2 ? 0 : 1);
          std::vector<int> x{1}, y{1};
          for (int i = 0; i < (comm.rank() < 2 ? 5 : 2); ++i) ringlet::barrier(*part);
          ringlet::all_reduce(comm, x);
          ringlet::all_reduce(*part, y);
          expect(x[0] == 4 && y[0] == 2, "the sums");
        }) == 0);
}

OVER_BOTH("a failed part leaves the whole as it is") {
  CHECK(on<Ranks>(4, [](auto& comm) {
          auto part = comm.split(comm.rank() / 2);
          std::vector<int> x{1};
          if (comm.rank() == 0) part->abort();
          if (comm.rank() < 2)
            expect(error_of([&] { ringlet::barrier(*part), ringlet::barrier(*part); }).has_value(), "no error");
          else
            ringlet::barrier(*part);
          ringlet::all_reduce(comm, x);
          expect(x[0] == 4, "the sum");
        }) == 0);
}

OVER_BOTH("parts can be split again, and outlive the whole") {
  CHECK(on<Ranks>(4, [](auto& comm) {
          auto half = comm.split(comm.rank() / 2);
          auto alone = half->split(half->rank());
          { auto const gone = std::move(comm); }
          std::vector<int> x{1}, y{1};
          ringlet::all_reduce(*alone, x);
          ringlet::all_reduce(*half, y);
          expect(alone->size() == 1 && x[0] == 1 && y[0] == 2, "the sums");
        }) == 0);
}
