// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/device_settings.hpp"

using namespace ringlet;

// --- which route a size takes ---

constexpr device_selection by_default{};
constexpr std::size_t kib = 1024;

static_assert(by_default.choose(0, 0, 8, true) == device_route::lines);
static_assert(by_default.choose(64 * kib, 64 * kib, 2, true) == device_route::lines);
static_assert(by_default.choose(64 * kib + 1, 64 * kib + 1, 2, true) == device_route::one_shot);
static_assert(by_default.choose(64 * kib, 64 * kib, 2, false) == device_route::one_shot, "lines may be too few");
static_assert(by_default.choose(64 * kib, 64 * kib, 3, true) == device_route::one_shot, "each sends to two others");
static_assert(by_default.choose(1024 * kib, 1024 * kib, 2, true) == device_route::one_shot);
static_assert(by_default.choose(1024 * kib, 1024 * kib, 3, true) == device_route::staged);
static_assert(by_default.choose(4096 * kib, 4096 * kib, 8, true) == device_route::staged);
static_assert(by_default.choose(4096 * kib + 1, 4096 * kib + 1, 8, true) == device_route::ring);
static_assert(by_default.choose(kib, 8 * kib, 8, true) == device_route::lines, "in an all-gather input is a part");

constexpr device_selection rings_only{.line_bytes = 0, .one_shot_bytes = 0, .staged_bytes = 0};
static_assert(rings_only.choose(1, 1, 2, true) == device_route::ring);
