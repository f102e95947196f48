// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: bool has no average
#include "ringlet/combine.hpp"

#if defined(RINGLET_CONTROL)
using number = int;
#else
using number = bool;
#endif
number const value = ringlet::arithmetic<number, ringlet::average>({}, 2).add(1, 0);
