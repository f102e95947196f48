// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: an element is a non-empty, trivially copyable object
#include "ringlet/combine.hpp"

// C05: an element of no size.
struct nothing {
#if defined(RINGLET_CONTROL)
  char something;
#endif
};
ringlet::arithmetic<nothing, ringlet::keep> const how({}, 2);
