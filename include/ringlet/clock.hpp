// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>  // says whose library this is

// Durations and clocks: <chrono>, without its calendars and their printing, which would be a tenth of what users of
// ringlet compile. libstdc++ keeps that part in a header of its own, since version 12.
#if defined(__GLIBCXX__) && __has_include(<bits/chrono.h>)
#include <bits/chrono.h>
#else
#include <chrono>
#endif

namespace ringlet {

/// When a wait must end. Every wait of ringlet takes one, or knows one.
using time_point = std::chrono::steady_clock::time_point;

}  // namespace ringlet
