// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prove your own schedule: the compiler runs all ranks of the engine that ships, on elements that say who has
// contributed to them. A schedule that would lose a contribution, add one twice or lock does not get past it.
#include <cstdio>

#include "ringlet/cost.hpp"
#include "ringlet/draw.hpp"
#include "ringlet/prove.hpp"

using ringlet::collective;
using ringlet::step;

// The textbooks' ring: rank r begins with chunk r. (ringlet's begins with r-1, so that chunk r is complete at rank r.)
struct textbook {
  static constexpr collective does = collective::all_reduce;
  int rank, size;

  constexpr int steps() const { return 2 * size - 1; }
  constexpr step operator[](int k) const {
    bool const receive = k > 0, reduce = k > 0 && k < size, keep = k >= size - 1, send = k < 2 * size - 2;
    return {{receive, reduce, keep, send}, (rank - k + 2 * size) % size};
  }
};
static_assert(ringlet::schedule<textbook>);
static_assert(ringlet::proved<textbook>(1) && ringlet::proved<textbook>(2) && ringlet::proved<textbook>(3));

// A chain: every chunk begins at rank 0, is complete at the last rank, and from there goes round to the others.
struct chain {
  static constexpr collective does = collective::all_reduce;
  int rank, size;

  constexpr bool last() const { return rank == size - 1; }
  constexpr int steps() const { return last() ? size : 2 * size; }
  constexpr step operator[](int k) const {
    if (k < size) return {{rank > 0, rank > 0, last(), size > 1}, k};  // add and pass on
    return {{true, false, true, rank < size - 2}, k - size};           // keep and pass on
  }
};
static_assert(ringlet::proved<chain>(1) && ringlet::proved<chain>(2) && ringlet::proved<chain>(3));

// The textbooks' ring in which somebody has counted wrong: the last hop is missing, so each rank lacks a chunk.
struct one_hop_short : textbook {
  constexpr int steps() const { return 2 * size - 2; }
  constexpr step operator[](int k) const {
    step s = textbook{rank, size}[k];
    s.does.send = k < 2 * size - 3;
    return s;
  }
};
static_assert(!ringlet::proved<one_hop_short>(3));

int main() {
  // To have compiled is the proof. What it looks like, and what each rank sends:
  std::puts(ringlet::draw<textbook>(3).text().c_str());
  std::puts(ringlet::draw<chain>(3).text().c_str());
  std::puts(ringlet::draw<one_hop_short>(3).text().c_str());
  std::printf("of 3 chunks, rank 0 sends %d in the ring, %d in the chain\n", ringlet::traffic_of<textbook>(0, 3).sent,
              ringlet::traffic_of<chain>(0, 3).sent);
}
