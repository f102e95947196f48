// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// prove.cpp goes on: every element has every contributor once, for up to 16 ranks.
#include "ringlet/prove.hpp"

namespace {
using namespace ringlet;
using enum collective;

template <collective... What>
constexpr bool ring_is_proved(int n) {
  return (proved<ring_schedule<What>>(n) && ...);
}
static_assert(ring_is_proved<reduce_scatter, all_gather, all_reduce>(6));
static_assert(ring_is_proved<reduce_scatter, all_gather, all_reduce>(7));
static_assert(ring_is_proved<reduce_scatter, all_gather, all_reduce>(8));
static_assert(ring_is_proved<reduce_scatter, all_gather, all_reduce>(9));
static_assert(ring_is_proved<reduce_scatter, all_gather, all_reduce>(10));
static_assert(ring_is_proved<reduce_scatter, all_gather, all_reduce>(11));
static_assert(ring_is_proved<reduce_scatter, all_gather, all_reduce>(12));
static_assert(ring_is_proved<reduce_scatter, all_gather, all_reduce>(13));
static_assert(ring_is_proved<reduce_scatter, all_gather, all_reduce>(14));
static_assert(ring_is_proved<reduce_scatter, all_gather, all_reduce>(15));
static_assert(ring_is_proved<reduce_scatter, all_gather, all_reduce>(16));
static_assert(proved<ring_schedule<all_reduce, 8>>(8));
static_assert(ring_is_proved<broadcast, reduce>(6) && ring_is_proved<broadcast, reduce>(9));
static_assert(ring_is_proved<broadcast, reduce>(16));

}  // namespace
