// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: the output would be gone before the operation is
#include <vector>

#include "ringlet/point_to_point.hpp"
#include "ringlet/transport/in_process.hpp"

void use(ringlet::communicator<ringlet::in_process>& comm, std::vector<float>& buffer) {
#if defined(RINGLET_CONTROL)
  auto operation = ringlet::async_recv(comm, buffer, 0);
#else
  auto operation = ringlet::async_recv(comm, std::vector<float>(buffer), 0);
#endif
  operation.wait();
}
