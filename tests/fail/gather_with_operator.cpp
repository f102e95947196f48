// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: ringlet: an all-gather reduces nothing: give keep{} or travel_as<W>(keep{})
#include <vector>

#include "ringlet/all_gather.hpp"
#include "ringlet/transport/in_process.hpp"

void wrong(ringlet::communicator<ringlet::in_process>& comm) {
  std::vector<float> buffer(3);
#ifdef RINGLET_CONTROL
  ringlet::all_gather(comm, buffer, ringlet::keep{});
#else
  ringlet::all_gather(comm, buffer, ringlet::sum{});
#endif
}
