// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: aligned to 128 bytes at most
#include "ringlet/reduction.hpp"

#if defined(RINGLET_CONTROL)
struct alignas(128) large {
#else
struct alignas(256) large {
#endif
  float x[64];
};
ringlet::arithmetic<large, ringlet::keep> const how({}, 2);
