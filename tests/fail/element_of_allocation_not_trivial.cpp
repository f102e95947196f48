// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: constraint
#include <string>

#include "ringlet/allocate.hpp"
#include "ringlet/transport/in_process.hpp"

#if defined(RINGLET_CONTROL)
using element = double;
#else
using element = std::string;
#endif
void use(ringlet::communicator<ringlet::in_process>& comm) { auto memory = comm.allocate<element>(8); }
