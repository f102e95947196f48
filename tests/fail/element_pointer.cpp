// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: an element is a non-empty, trivially copyable object, and no pointer
#include "ringlet/combine.hpp"

// A pointer means nothing on another rank.
#if defined(RINGLET_CONTROL)
using pointer = std::ptrdiff_t;
#else
using pointer = int*;
#endif
ringlet::arithmetic<pointer, ringlet::keep> const how({}, 2);
