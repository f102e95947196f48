// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: they cannot travel as a type that is larger than the element
#include <vector>

#include "ringlet/hierarchical.hpp"
#include "ringlet/transport/in_process.hpp"

void sum_up(ringlet::hierarchical<ringlet::in_process, ringlet::in_process>& all) {
#if defined(RINGLET_CONTROL)
  std::vector<float> buffer(3);
#else
  std::vector<ringlet::bfloat16> buffer(3);
#endif
  ringlet::all_reduce(all, buffer, ringlet::travel_as<float>(ringlet::sum{}));
}
