// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: an operator takes two accumulators and gives one
#include "ringlet/combine.hpp"

struct negation {
  using commutative_and_associative = std::true_type;
#if defined(RINGLET_CONTROL)
  int operator()(int a, int b) const { return a ^ b; }
#else
  int operator()(int a) const { return -a; }
#endif
};
int const added = ringlet::arithmetic<int, negation>({}, 2).add(1, 2);
