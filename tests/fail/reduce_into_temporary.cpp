// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: the output would be gone before the operation is
#include <vector>

#include "ringlet/reduce.hpp"
#include "ringlet/transport/in_process.hpp"

void use(ringlet::communicator<ringlet::in_process>& comm, std::vector<float> const& input,
         std::vector<float>& output) {
#if defined(RINGLET_CONTROL)
  auto operation = ringlet::async_reduce(comm, input, output, 0);
#else
  auto operation = ringlet::async_reduce(comm, input, std::vector<float>(output), 0);
#endif
  operation.wait();
}
