// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <doctest/doctest.h>

#include "ranks.hpp"
#include "ringlet/transport/in_process.hpp"
#include "ringlet/transport/shared_memory.hpp"

// A test case, run with `Ranks` as threads over in_process and as processes over shared_memory.
#define OVER_BOTH(name) \
  TEST_CASE_TEMPLATE(name, Ranks, tests::threads<ringlet::in_process>, tests::processes<ringlet::shared_memory>)
