// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <doctest/doctest.h>

#include "ranks.hpp"
#include "ringlet/transport/in_process.hpp"
#include "ringlet/transport/shared_memory.hpp"

// What tests set where a transport has it (ranks.hpp, suite/suite.hpp), these two have.
static_assert(requires(ringlet::in_process::settings s, ringlet::shared_memory::settings t) {
  s.slots + s.slot_bytes + s.lanes + s.board_bytes + s.stage_bytes;
  t.slots + t.slot_bytes + t.lanes + t.board_bytes + t.stage_bytes;
});

// A test case, run with `Ranks` as threads over in_process and as processes over shared_memory.
#define OVER_BOTH(name) \
  TEST_CASE_TEMPLATE(name, Ranks, tests::threads<ringlet::in_process>, tests::processes<ringlet::shared_memory>)
