// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: bit_and is for integers and bool
#include "ringlet/combine.hpp"

#if defined(RINGLET_CONTROL)
using number = int;
#else
using number = float;
#endif
number const value = ringlet::arithmetic<number, ringlet::bit_and>({}, 2).add(1, 0);
