// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: an operator must be commutative and associative
#include "ringlet/combine.hpp"

// C34: the product of matrices depends on the order, and a ring begins each chunk at another rank.
struct matrix {
  float a, b, c, d;
};
struct matrix_operator {
#if defined(RINGLET_CONTROL)
  using commutative_and_associative = std::true_type;
  matrix operator()(matrix x, matrix y) const { return {x.a + y.a, x.b + y.b, x.c + y.c, x.d + y.d}; }
#else
  matrix operator()(matrix x, matrix y) const {
    return {x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d, x.c * y.a + x.d * y.c, x.c * y.b + x.d * y.d};
  }
#endif
};
ringlet::arithmetic<matrix, matrix_operator> const how({}, 4);
