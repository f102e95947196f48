// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: degree_below_1
#include "ringlet/mesh.hpp"

#if defined(RINGLET_CONTROL)
constexpr ringlet::mesh run{{{"data", 2}, {"tensor", 1}}};
#else
constexpr ringlet::mesh run{{{"data", 2}, {"tensor", 0}}};
#endif
