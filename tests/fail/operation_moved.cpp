// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Peers may be writing to what an operation describes: it stays where it is.
// error: deleted
#include <utility>
#include <vector>

#include "ringlet/all_reduce.hpp"
#include "ringlet/transport/in_process.hpp"

void use(ringlet::communicator<ringlet::in_process>& comm, std::vector<float>& b) {
  auto operation = ringlet::async_all_reduce(comm, b);
#if defined(RINGLET_CONTROL)
  auto& same = operation;
#else
  auto same = std::move(operation);
#endif
  same.wait();
}
