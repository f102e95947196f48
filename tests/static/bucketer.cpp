// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/bucketer.hpp"

#include <cstddef>
#include <vector>

namespace {

using counts = std::vector<std::size_t>;

constexpr bool plan(counts const& sizes, counts const& ends) { return ringlet::plan_buckets(sizes, 10, 100) == ends; }
static_assert(plan({}, {}), "nothing makes no bucket");
static_assert(plan({10, 100, 100}, {1, 2, 3}), "each fills its bucket exactly");
static_assert(plan({4, 6, 1, 99, 1}, {2, 4, 5}), "as many as fit");
static_assert(plan({11, 1}, {1, 2}), "one that is too large for the first bucket travels alone");
static_assert(plan({1, 500, 1, 1}, {1, 2, 4}), "and so for the others");
static_assert(plan({0, 0, 11, 0, 89, 0, 1}, {2, 6, 7}), "an empty one joins any bucket");
static_assert(ringlet::plan_buckets(counts{5, 5, 5}, 0, 0) == counts{1, 2, 3}, "no room makes a bucket for each");
static_assert(ringlet::plan_buckets(counts{1, std::size_t(-1), std::size_t(-1)}, 2, 10) == counts{1, 2, 3},
              "a sum that is too large for a number");

}  // namespace
