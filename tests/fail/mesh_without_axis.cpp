// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: no_such_axis
#include "ringlet/mesh.hpp"

constexpr ringlet::mesh run{{{"data", 2}, {"tensor", 4}}};
#if defined(RINGLET_CONTROL)
constexpr int degree = run.degree("tensor");
#else
constexpr int degree = run.degree("tenser");
#endif
