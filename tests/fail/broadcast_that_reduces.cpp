// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: a broadcast reduces nothing
#include "ringlet/broadcast.hpp"
#include "ringlet/transport/in_process.hpp"

void use(ringlet::communicator<ringlet::in_process>& comm, float (&buffer)[4]) {
#if defined(RINGLET_CONTROL)
  ringlet::broadcast(comm, buffer, 0, ringlet::keep{});
#else
  ringlet::broadcast(comm, buffer, 0, ringlet::sum{});
#endif
}
