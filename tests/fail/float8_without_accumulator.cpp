// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: 8-bit floats reduce only in a wider type: say accumulate_in<float>(op)
#include "ringlet/combine.hpp"

// C26: 8-bit floats may be gathered as they are, but not reduced.
#if defined(RINGLET_CONTROL)
using operation = decltype(ringlet::accumulate_in<float>(ringlet::sum{}));
#else
using operation = ringlet::sum;
#endif
ringlet::arithmetic<ringlet::float8_e4m3, operation> const how({}, 2);
