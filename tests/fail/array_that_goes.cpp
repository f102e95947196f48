// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: the buffer would be gone before the operation is
#include <array>

#include "ringlet/all_reduce.hpp"
#include "ringlet/transport/in_process.hpp"

void use(ringlet::communicator<ringlet::in_process>& comm, std::array<int, 4>& stays) {
#if defined(RINGLET_CONTROL)
  auto operation = ringlet::async_all_reduce(comm, stays);
#else
  auto operation = ringlet::async_all_reduce(comm, std::array<int, 4>(stays));
#endif
  operation.wait();
}
