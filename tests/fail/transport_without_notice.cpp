// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A transport that cannot tell of a lost peer is none.
// error: lost
#include "ringlet/communicator.hpp"
#include "ringlet/transport/in_process.hpp"

struct silent : ringlet::in_process {
  using ringlet::in_process::in_process;
#if !defined(RINGLET_CONTROL)
  int lost(std::uint64_t) const = delete;
#endif
};
void use(ringlet::communicator<silent>&);
