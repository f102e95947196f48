// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: this transport has no links between any two ranks
#include "../../examples/07_own_transport.hpp"
#include "ringlet/point_to_point.hpp"
#include "ringlet/transport/in_process.hpp"

#if defined(RINGLET_CONTROL)
using transport = ringlet::in_process;
#else
using transport = sockets;
#endif
void use(ringlet::communicator<transport>& comm, float (&buffer)[4]) { ringlet::send(comm, buffer, 1); }
