// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: contiguous
#include <vector>

#include "ringlet/all_reduce.hpp"
#include "ringlet/transport/in_process.hpp"

#if defined(RINGLET_CONTROL)
using element = char;
#else
using element = bool;
#endif
void use(ringlet::communicator<ringlet::in_process>& comm, std::vector<element>& b) {
  ringlet::all_reduce(comm, b, b, ringlet::logical_or{});
}
