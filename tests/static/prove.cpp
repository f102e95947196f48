// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The engine, proved by the compiler: this file passes by compiling.
#include "ringlet/prove.hpp"

namespace {
using namespace ringlet;
using enum collective;
using symbolic::check;
using symbolic::setting;
using symbolic::verdict;

// 1. Every element has every contributor once. More ranks: prove_many_ranks.cpp. -------------------------------------

constexpr bool ring_is_proved(int n) {
  return proved<ring_schedule<reduce_scatter>>(n) && proved<ring_schedule<all_gather>>(n) &&
         proved<ring_schedule<all_reduce>>(n) && proved<ring_schedule<broadcast>>(n) &&
         proved<ring_schedule<reduce>>(n);
}
static_assert(ring_is_proved(1) && ring_is_proved(2) && ring_is_proved(3) && ring_is_proved(4) && ring_is_proved(5));

// With the size known while compiling, the steps are unrolled: another path through the engine.
template <int N>
constexpr bool unrolled_is_proved =
    proved<ring_schedule<reduce_scatter, N>>(N) && proved<ring_schedule<all_gather, N>>(N) &&
    proved<ring_schedule<all_reduce, N>>(N) && proved<ring_schedule<broadcast, N>>(N) &&
    proved<ring_schedule<reduce, N>>(N);
static_assert(unrolled_is_proved<1> && unrolled_is_proved<2> && unrolled_is_proved<3>);

// 2. As many slices under way as there are slots, and the ring locks. ------------------------------------------------

using all = ring_schedule<all_reduce>;
static_assert(check<all>(4, {.count = 32, .slots = 2, .depth = 2}) == verdict::deadlock);
static_assert(check<all>(4, {.count = 32, .slots = 1, .depth = 1}) == verdict::deadlock);
static_assert(check<all>(4, {.count = 32, .slots = 2, .depth = 1}) == verdict::correct);
static_assert(check<all>(4, {.count = 32, .slots = 3, .depth = 2}) == verdict::correct);
static_assert(check<all>(7, {.count = 70, .slots = 3, .depth = 3}) == verdict::deadlock);

// A pipeline from or to a root has no way round on which it could.
static_assert(check<ring_schedule<broadcast>>(4, {.count = 32, .slots = 1, .depth = 1}) == verdict::correct);
static_assert(check<ring_schedule<reduce>>(7, {.count = 70, .slots = 3, .depth = 3}) == verdict::correct);

// 3. A link that lands without waiting for its neighbour is found out. -----------------------------------------------

static_assert(check<ring_schedule<all_gather>>(3, {.count = 9, .landing = true, .eager = true, .order = 3}) ==
              verdict::early);
static_assert(check<ring_schedule<all_gather>>(3, {.count = 9, .landing = true, .order = 3}) == verdict::correct);

// 4. A schedule that is wrong is refused. ----------------------------------------------------------------------------

template <int Mistake>
struct mistaken {
  static constexpr collective does = all_reduce;
  int rank, size;
  constexpr int steps() const { return all{rank, size}.steps() - (Mistake == 0); }
  constexpr step operator[](int k) const {
    step s = all{rank, size}[k];
    if (Mistake == 1 && k == size - 1) s.does.reduce = false;
    if (Mistake == 2) s.chunk = (s.chunk + (k >= size)) % size;
    if (Mistake == 3 && k == 2 * size - 3) s.does.keep = false;
    if (Mistake == 4 && k == steps() - 1) s.does.send = true;
    if (Mistake == 5) s.chunk += size;
    return s;
  }
};
static_assert(!proved<mistaken<0>>(4) && !proved<mistaken<1>>(4) && !proved<mistaken<2>>(4));
static_assert(!proved<mistaken<3>>(4) && !proved<mistaken<4>>(4) && !proved<mistaken<5>>(4));
static_assert(proved<mistaken<-1>>(4));

template <collective What, int Mistake>
struct mistaken_root {
  static constexpr collective does = What;
  int rank, size;
  constexpr int steps() const { return size; }
  constexpr step operator[](int k) const {
    step s = ring_schedule<What>{rank, size}[k];
    if (Mistake == 0 && rank == 2) s.does.reduce = !s.does.reduce;
    if (Mistake == 1 && rank == 0 && k == 1) s.does.keep = false;
    if (Mistake == 2 && rank == 1) s.chunk = (k + 1) % size;
    if (Mistake == 3 && rank == 2) s.does.keep = !s.does.keep;
    return s;
  }
};
static_assert(proved<mistaken_root<broadcast, -1>>(3) && proved<mistaken_root<reduce, -1>>(3));
static_assert(!proved<mistaken_root<broadcast, 0>>(3) && !proved<mistaken_root<reduce, 0>>(3));
static_assert(!proved<mistaken_root<broadcast, 1>>(3) && !proved<mistaken_root<reduce, 1>>(3));
static_assert(!proved<mistaken_root<broadcast, 2>>(3) && !proved<mistaken_root<reduce, 2>>(3));
static_assert(!proved<mistaken_root<broadcast, 3>>(3) && !proved<mistaken_root<reduce, 3>>(3));

}  // namespace
