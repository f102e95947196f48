// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: an element is a non-empty, trivially copyable object
#include "ringlet/combine.hpp"

// Its bytes are not its value.
struct counted {
#if !defined(RINGLET_CONTROL)
  counted(counted const&) {}
#endif
  int x;
};
ringlet::arithmetic<counted, ringlet::keep> const how({}, 2);
