// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/selection.hpp"

using namespace ringlet;

constexpr selection some{.one_shot_bytes = 1000, .boarded_bytes = 4500, .staged_bytes = 50'000};
constexpr std::size_t board = 2000;
constexpr bool stage = true, none = false;

// Small input goes in one shot wherever it lies, up to the bound and up to what a board holds.
static_assert(some.choose(0, 0, 8, false, board, stage) == route::one_shot);
static_assert(some.choose(1000, 8000, 8, true, board, stage) == route::one_shot);
static_assert(some.choose(1001, 8000, 8, true, board, stage) == route::direct);
static_assert(some.choose(900, 7200, 8, false, 899, stage) != route::one_shot);

// Where some memory is out of reach, moderate input does, too, up to what a rank reads of all others.
static_assert(some.choose(1500, 1500, 4, false, board, stage) == route::one_shot);
static_assert(some.choose(1501, 1501, 4, false, board, stage) == route::staged);
static_assert(some.choose(1500, 1500, 5, false, board, stage) == route::staged);
static_assert(some.choose(1500, 1500, 4, false, 1499, stage) == route::staged);
static_assert(some.choose(1500, 1500, 4, true, board, stage) == route::direct);

// In reach, all else goes direct, whatever its size.
static_assert(some.choose(1 << 30, std::size_t{1} << 33, 8, true, board, stage) == route::direct);
static_assert(some.choose(1 << 30, std::size_t{1} << 33, 8, true, board, none) == route::direct);

// Out of reach, it is staged, if there is a stage, up to the bound.
static_assert(some.choose(50'000, 50'000, 8, false, board, stage) == route::staged);
static_assert(some.choose(50'001, 50'001, 8, false, board, stage) == route::ring);
static_assert(some.choose(40'000, 50'001, 8, false, board, stage) == route::ring);
static_assert(some.choose(50'000, 50'000, 8, false, board, none) == route::ring);

// Rows are aligned to what caches share, and there may be too many ranks for any.
static_assert(stage_row(4096, 2) == 1024 && stage_row(4096, 3) == 640 && stage_row(4096, 17) == 0 &&
              stage_row(0, 1) == 0);

static_assert(some == selection{1000, 4500, 50'000} && some != selection{});
static_assert(to_string(route::one_shot)[0] == 'o' && to_string(route::direct)[0] == 'd');
static_assert(to_string(route::staged)[0] == 's' && to_string(route::ring)[0] == 'r');
