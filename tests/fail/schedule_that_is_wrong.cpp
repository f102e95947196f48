// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: failed
// A schedule that is wrong does not pass its proof.
#include "ringlet/prove.hpp"

struct selfish {
  static constexpr ringlet::collective does = ringlet::collective::all_reduce;
  int rank, size;
  constexpr int steps() const { return 1; }
  constexpr ringlet::step operator[](int) const { return {{false, false, true, false}, 0}; }
};
#if defined(RINGLET_CONTROL)
static_assert(ringlet::proved<selfish>(1));
#else
static_assert(ringlet::proved<selfish>(2));
#endif
