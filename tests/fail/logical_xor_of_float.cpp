// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: logical_xor is for integers and bool
#include "ringlet/combine.hpp"

#if defined(RINGLET_CONTROL)
using number = int;
#else
using number = float;
#endif
number const value = ringlet::arithmetic<number, ringlet::logical_xor>({}, 2).add(1, 0);
