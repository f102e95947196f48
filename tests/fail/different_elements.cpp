// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: ringlet: input and output have different elements
#include <vector>

#include "ringlet/all_reduce.hpp"
#include "ringlet/transport/in_process.hpp"

void wrong(ringlet::communicator<ringlet::in_process>& comm) {
#ifdef RINGLET_CONTROL
  std::vector<float> const input(3);
#else
  std::vector<double> const input(3);
#endif
  std::vector<float> output(3);
  ringlet::all_reduce(comm, input, output);
}
