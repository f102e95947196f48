// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: it must be trivially copyable
#include "ringlet/combine.hpp"

// What an operator holds is copied to where it runs.
struct holder {
  using commutative_and_associative = std::true_type;
#if !defined(RINGLET_CONTROL)
  holder() = default;
  holder(holder const&) {}
#endif
  int operator()(int a, int b) const { return a + b; }
};
ringlet::arithmetic<int, holder> const how({}, 2);
