// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: constraint
#include "ringlet/schedule.hpp"

#if defined(RINGLET_CONTROL)
constexpr auto what = ringlet::collective::all_reduce;
#else
constexpr auto what = ringlet::collective::barrier;
#endif
constexpr ringlet::ring_schedule<what> schedule{0, 1};
