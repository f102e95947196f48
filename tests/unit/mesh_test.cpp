// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/mesh.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "../over_both.hpp"
#include "ringlet/all_gather.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/split.hpp"

using namespace tests;
using ringlet::along;
using ringlet::axis;
using ringlet::mesh;

namespace {
constexpr mesh run{{{"data", 2}, {"pipeline", 1}, {"tensor", 3}}};

// The numbers that ranks of a communicator have among all.
template <class Comm>
std::vector<int> ranks_in(Comm& comm, int rank) {
  std::vector<int> all(static_cast<std::size_t>(comm.size()));
  all[static_cast<std::size_t>(comm.rank())] = rank;
  ringlet::all_gather(comm, all);
  return all;
}

// Parts that are wrongly made wait for each other; not for long.
template <class X, int Size = ringlet::dynamic_size, class... Names>
auto part_of(self who, Names... names) {
  return ringlet::connect<X, Size>(along(who, run, names...), {.connect_timeout = 5s});
}
}  // namespace

TEST_CASE("each axis has a transport of its own, and one of several axes another") {
  CHECK(launch(6,
               [](self who) {
                 auto tensor = part_of<ringlet::shared_memory>(who, "tensor");
                 auto data = part_of<ringlet::in_process, 2>(who, "data");
                 auto alone = part_of<ringlet::in_process>(who, "pipeline");
                 auto all = part_of<ringlet::in_process>(who, "tensor", "data");
                 int const row = who.rank / 3, column = who.rank % 3;
                 expect(ranks_in(tensor, who.rank) == std::vector{3 * row, 3 * row + 1, 3 * row + 2}, "tensor");
                 expect(ranks_in(data, who.rank) == std::vector{column, column + 3}, "data");
                 expect(ranks_in(alone, who.rank) == std::vector{who.rank}, "pipeline");
                 expect(ranks_in(all, who.rank) == std::vector{0, 1, 2, 3, 4, 5}, "all");
                 // Along one axis, then along the other: everybody's.
                 std::vector<int> x{1 << (4 * who.rank)};
                 ringlet::all_reduce(tensor, x);
                 ringlet::all_reduce(data, x);
                 expect(x[0] == 0x111111, "the sum over both axes");
               },
               {.as = ranks_as::threads}) == 0);
}

OVER_BOTH("colors and places split a communicator along any axes") {
  CHECK(on<Ranks>(6, [](auto& comm) {
          int const rank = comm.rank();
          auto tensor = comm.split(run.color(rank, "tensor"), run.place(rank, "tensor"));
          auto data = comm.split(run.color(rank, "data"), run.place(rank, "data"));
          expect(ranks_in(*tensor, rank)[2] == rank / 3 * 3 + 2, "tensor");
          expect(ranks_in(*data, rank)[1] == rank % 3 + 3, "data");
        }) == 0);
}

TEST_CASE("degrees that do not multiply to the number of ranks are refused by all, in words") {
  CHECK(launch(4,
               [](self who) {
                 auto const e = error_of([&] { part_of<ringlet::in_process>(who, "data"); });
                 expect(e, errc::invalid_argument,
                        "the degrees of the mesh data 2 x pipeline 1 x tensor 3 multiply to 6 ranks, but there are 4");
               },
               {.as = ranks_as::threads}) == 0);
}

TEST_CASE("what makes no mesh, and what is not in one, is refused in words") {
  auto refused = [](auto f, std::string const& words) {
    auto const e = error_of(f);
    REQUIRE(e.has_value());
    CHECK(e->why() == errc::invalid_argument);
    CHECK(e->words() == words);
  };
  int const most = std::numeric_limits<int>::max();
  refused([] { mesh{{{"data", 2}, {"tensor", 0}}}; }, "axis tensor has degree 0, expected at least 1");
  refused([] { mesh{{{"data", 2}, {"data", 2}}}; }, "axis data comes twice");
  refused([&] { mesh{{{"data", 2}, {"tensor", most}}}; }, "the degrees multiply to more ranks than an int can count");
  refused([] { run.degree("tenser"); }, "there is no axis tenser in the mesh data 2 x pipeline 1 x tensor 3");
  refused([] { run.degree("data", "tensor", "data"); }, "axis data comes twice");
  char const* const where = " in the mesh data 2 x pipeline 1 x tensor 3";
  refused([] { run.coordinates(6); }, std::string("6 is not a rank or a place among 6") + where);
  refused([] { run.color(-1, "data"); }, std::string("-1 is not a rank or a place among 6") + where);
  refused([] { run.member(0, 3, "tensor"); }, std::string("3 is not a rank or a place among 3") + where);
  refused([] { run.rank({0, 1, 0}); }, std::string("1 is not a rank or a place among 1") + where);
  CHECK(run.names("tensor", "data") == "data+tensor");
}
