// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/shared_memory.hpp"

#include "suite.hpp"

RINGLET_SUITE(tests::processes<ringlet::shared_memory>, tests::threads<ringlet::shared_memory>);
