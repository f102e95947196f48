// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/in_process.hpp"

#include "suite.hpp"

RINGLET_SUITE(tests::threads<ringlet::in_process>);
