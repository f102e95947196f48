// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/config.hpp"

#include <bit>
#include <concepts>

// The version is a number that the preprocessor can compare; structure_test.py compares it with meson.build's.
#if RINGLET_VERSION < 1 || RINGLET_VERSION >= 1000000
#error "RINGLET_VERSION is no version"
#endif
static_assert(std::same_as<decltype(RINGLET_VERSION), int>);

// 0 is what an unwritten word holds, so no version of the wire may be 0. It travels as four bytes.
static_assert(ringlet::wire_version > 0 && sizeof ringlet::wire_version == 4);

// Good for alignas, and a whole cache line at least.
static_assert(std::has_single_bit(ringlet::interference) && ringlet::interference >= 64);
struct alignas(ringlet::interference) word {
  int value;
};
static_assert(sizeof(word[2]) == 2 * ringlet::interference);

// Where there is no device, functions so marked are ordinary ones.
RINGLET_ANY_EXEC
template <class F>
RINGLET_HD constexpr int result_of(F f) {
  return f();
}
static_assert(result_of([] { return 3; }) == 3);
