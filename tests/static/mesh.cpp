// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/mesh.hpp"

namespace {
using ringlet::mesh;

constexpr mesh run{{{"data", 2}, {"pipeline", 3}, {"state", 1}, {"tensor", 4}}};
static_assert(run.size() == 24 && run.degree("pipeline") == 3 && run.degree("tensor", "data") == 8);
static_assert(run.axes()[1].name == "pipeline");

template <class Holds>
constexpr bool for_all_ranks(Holds holds) {
  for (int rank = 0; rank < run.size(); ++rank)
    if (!holds(rank)) return false;
  return true;
}
// Holds for one axis, none that is first or last in it, one of degree 1, two that are not neighbours, and all.
template <class Holds>
constexpr bool along_any(Holds holds) {
  return for_all_ranks([&](int rank) {
    return holds(rank, "data") && holds(rank, "pipeline") && holds(rank, "state") && holds(rank, "tensor") &&
           holds(rank, "data", "tensor") && holds(rank, "data", "pipeline", "state", "tensor");
  });
}

// There and back; the last axis is the fastest.
static_assert(for_all_ranks([](int rank) { return run.rank(run.coordinates(rank)) == rank; }));
static_assert(run.coordinates(13) == mesh<4>::coordinate{1, 0, 0, 1} && run.rank({1, 2, 0, 3}) == 23);

// Ranks of one color are as many as the degree, each at a place of its own, in the order of ranks.
static_assert(along_any([](int rank, auto... names) {
  int of_its_color = 0;
  for (int other = 0; other < run.size(); ++other)
    if (run.color(other, names...) == run.color(rank, names...) && run.place(other, names...) != of_its_color++)
      return false;
  return of_its_color == run.degree(names...) && run.color(rank, names...) < run.size() / of_its_color;
}));
// A rank is where its color and place say.
static_assert(along_any([](int rank, auto... names) {
  for (int other = 0; other < run.size(); ++other)
    if (run.color(other, names...) == run.color(rank, names...) &&
        run.member(rank, run.place(other, names...), names...) != other)
      return false;
  return run.member(rank, run.place(rank, names...), names...) == rank;
}));
// Those of one color differ along the named axes only.
static_assert(for_all_ranks([](int rank) {
  for (int place = 0; place < run.degree("data", "tensor"); ++place) {
    auto const mine = run.coordinates(rank), its = run.coordinates(run.member(rank, place, "tensor", "data"));
    if (its[0] != place / 4 || its[1] != mine[1] || its[3] != place % 4) return false;
  }
  return true;
}));
// The order of names is of no matter.
static_assert(for_all_ranks([](int rank) {
  return run.color(rank, "tensor", "data") == run.color(rank, "data", "tensor") &&
         run.place(rank, "tensor", "data") == run.place(rank, "data", "tensor");
}));

}  // namespace
