// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The clock is that of <chrono>, whatever part of it has been included before.

#include "ringlet/clock.hpp"

static_assert(std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::hours(1)).count() == 3'600'000);
static_assert(std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(1)) ==
              std::chrono::milliseconds(1));
using before = std::chrono::steady_clock::time_point;

#include <chrono>
#include <type_traits>

static_assert(std::is_same_v<ringlet::time_point, before> &&
              std::is_same_v<before, std::chrono::time_point<std::chrono::steady_clock>>);
