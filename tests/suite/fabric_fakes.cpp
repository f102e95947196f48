// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../fabric/fake_provider.hpp"
#include "../fabric/over.hpp"
#include "suite.hpp"

namespace {
using tests::over_fake;
}  // namespace

// What hardware does, each by itself: see the fake.
TEST_CASE_TEMPLATE_INVOKE(suite_large, over_fake<"plain">, over_fake<"no_writes">, over_fake<"null_inject">,
                          over_fake<"refused_inject">, over_fake<"reordered">, over_fake<"registers">,
                          over_fake<"no_gather">, over_fake<"endpoint_memory">, over_fake<"rx_cq_data">,
                          over_fake<"storms">);
// All at once.
RINGLET_SUITE(over_fake<"everything">, over_fake<"all_but_writes">);
