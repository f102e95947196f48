// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: lift(x) and finish(v, ranks) of an operator take an accumulator as it is, and are const
#include "ringlet/combine.hpp"

// Were such a `finish` left out in silence, a sum would come out where an average was meant.
struct mean {
  using commutative_and_associative = std::true_type;
  float operator()(float a, float b) const { return a + b; }
#if defined(RINGLET_CONTROL)
  float finish(float v, int ranks) const { return v / static_cast<float>(ranks); }
#else
  float finish(float v, int ranks) { return v / static_cast<float>(ranks); }
#endif
};
ringlet::arithmetic<float, mean> const how({}, 2);
