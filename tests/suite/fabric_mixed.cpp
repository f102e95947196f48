// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../fabric/mixed.hpp"
#include "suite.hpp"

namespace {
// Here, before there are ranks: each of them would spend a third of a second on it.
[[maybe_unused]] auto const& loaded = ringlet::fabric_library::open("libfabric.so.1");
}  // namespace

RINGLET_SUITE(tests::mixed_over<"net">);
