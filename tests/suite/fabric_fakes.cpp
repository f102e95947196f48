// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../fabric/fake_provider.hpp"
#include "../fabric/over.hpp"
#include "suite.hpp"

namespace {
using tests::over_fake;
using tests::threads;
}  // namespace

// What hardware does, each by itself: see the fake.
TEST_CASE_TEMPLATE_INVOKE(suite_large, threads<over_fake<"plain">>, threads<over_fake<"no_writes">>,
                          threads<over_fake<"null_inject">>, threads<over_fake<"refused_inject">>,
                          threads<over_fake<"reordered">>, threads<over_fake<"registers">>,
                          threads<over_fake<"no_gather">>, threads<over_fake<"endpoint_memory">>,
                          threads<over_fake<"rx_cq_data">>, threads<over_fake<"storms">>);
// All at once.
RINGLET_SUITE(threads<over_fake<"everything">>, threads<over_fake<"all_but_writes">>);
