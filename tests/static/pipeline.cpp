// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/pipeline.hpp"

namespace {
using namespace ringlet;
using enum unit_of_work::direction;

template <class Holds>
constexpr bool for_all(Holds holds) {
  for (int p = 1; p <= 5; ++p)
    for (int m : {1, 2, 3, 5, 8})
      if (!holds(p, m)) return false;
  return true;
}

// Both orders work, take 2(m+p-1) units, and leave (p-1)/(m+p-1) of the time idle: p-1 units at each end of the
// timeline, which a stage spends before its first step, after its last, or waiting for the first to come back.
template <class Order>
constexpr bool is_a_pipeline() {
  return for_all([](int p, int m) {
    auto const t = pipeline_timeline::of<Order>(p, m);
    if (!t.complete() || !proved_pipeline<Order>(p, m)) return false;
    if (t.length() != 2 * (m + p - 1) || t.idle_fraction() != static_cast<double>(p - 1) / (m + p - 1)) return false;
    for (int stage = 0; stage < p; ++stage)
      if (t.idle_before(stage) != stage || t.idle_after(stage) != stage || t.idle_between(stage) != 2 * (p - 1 - stage))
        return false;
    return true;
  });
}
static_assert(is_a_pipeline<all_forward_then_backward>() && is_a_pipeline<one_forward_one_backward>());

// With four stages three units are idle at each end of the last one, and splitting the batch shrinks their part.
constexpr double of_four = pipeline_timeline::of<one_forward_one_backward>(4, 8).idle_fraction();
static_assert(pipeline_timeline::of<all_forward_then_backward>(4, 8).idle_before(3) == 3 &&
              pipeline_timeline::of<all_forward_then_backward>(4, 8).idle_after(3) == 3);
static_assert(of_four == 3.0 / 11 && pipeline_timeline::of<one_forward_one_backward>(4, 32).idle_fraction() < of_four);

// What a stage holds: all microbatches, or no more than there are stages from it on.
static_assert(for_all([](int p, int m) {
  auto const all = pipeline_timeline::of<all_forward_then_backward>(p, m);
  auto const turns = pipeline_timeline::of<one_forward_one_backward>(p, m);
  for (int stage = 0; stage < p; ++stage)
    if (all.held(stage) != m || turns.held(stage) != (m < p - stage ? m : p - stage)) return false;
  return true;
}));

// Orders that are wrong are refused.
template <int Mistake>
struct mistaken {
  int stage, stages, microbatches;
  constexpr unit_of_work operator[](int k) const {
    unit_of_work u = one_forward_one_backward{stage, stages, microbatches}[k];
    if (Mistake == 0 && stage == 1 && k == 0) u = {backward, 0};  // before it went forward
    if (Mistake == 1 && stage == 1) u.microbatch = 0;             // the same again and again
    if (Mistake == 2) u.microbatch += u.way == backward;          // one that there is not
    if (Mistake == 3 && u.way == forward && stage == 0)
      u.microbatch = microbatches - 1 - u.microbatch;  // the last first
    return u;
  }
};
static_assert(proved_pipeline<mistaken<-1>>(3, 4));
static_assert(!proved_pipeline<mistaken<0>>(3, 4) && !proved_pipeline<mistaken<1>>(3, 4));
static_assert(!proved_pipeline<mistaken<2>>(3, 4) && !proved_pipeline<mistaken<3>>(3, 4));

}  // namespace
