// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/slice.hpp"

using ringlet::partition;
using ringlet::slice;

// --- partition: for all small counts and parts ---

template <class Holds>
constexpr bool for_all(Holds holds) {
  for (std::size_t count = 0; count <= 40; ++count)
    for (std::size_t parts = 1; parts <= 9; ++parts)
      if (!holds(partition{count, parts})) return false;
  return true;
}

// The parts cover everything, in order and without a gap or an overlap.
static_assert(for_all([](partition p) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < p.parts; ++i) {
    if (p.offset(i) != end) return false;
    end += p.length(i);
  }
  return end == p.count && p.offset(p.parts) == p.count;
}));

// Parts differ by one element at most, longer ones first, and the longest is the first.
static_assert(for_all([](partition p) {
  for (std::size_t i = 0; i < p.parts; ++i)
    if (p.length(i) > p.longest() || p.length(i) + 1 < p.longest() || p.length(i) > p.length(0)) return false;
  for (std::size_t i = 1; i < p.parts; ++i)
    if (p.length(i) > p.length(i - 1)) return false;
  return p.length(0) == p.longest();
}));

// Counts near the largest do not overflow.
constexpr partition largest{static_cast<std::size_t>(-1), 3};
static_assert(largest.offset(3) == largest.count);
static_assert(largest.offset(2) + largest.length(2) == largest.count);

// --- slice ---

// A slice of no elements is not the null slice.
constexpr int element = 0;
static_assert(slice<int const>{&element, 0});
static_assert(!slice<int const>{});
static_assert(slice<int const>{}.count == 0);
