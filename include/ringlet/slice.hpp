// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>

#include "ringlet/config.hpp"

namespace ringlet {

/// A pointer and a count of elements. `std::span` would say the same, but device code has it only behind a
/// compiler flag, which a header may not ask for.
/// @tparam T the element; `T const` for a slice that is only read
template <class T>
struct slice {
  T* data = nullptr;
  std::size_t count = 0;

  /// False for the null slice, which means "not now, ask again". A slice of no elements is still a slice.
  RINGLET_HD constexpr explicit operator bool() const { return data != nullptr; }
};

/// How far an operation has come.
enum class status : std::uint8_t {
  pending,  ///< not finished; poll again
  ready,    ///< finished: the output is complete, the input may be reused
  failed,   ///< will never finish; the communicator knows why
};

/// How a count of elements is cut into parts that differ by one element at most: the first `count % parts` parts
/// are one longer. The one rule by which a buffer becomes chunks, and a chunk the shares of its lanes.
struct partition {
  std::size_t count;         ///< elements in all
  std::size_t parts;         ///< how many parts, at least one
  std::size_t base, longer;  ///< elements in the shorter parts; how many parts have one more

  /// Divides once, here; what is asked later is multiplied.
  RINGLET_HD constexpr partition(std::size_t elements, std::size_t into)
      : count(elements), parts(into), base(elements / into), longer(elements % into) {}

  /// Where part `i` begins. `offset(parts)` is `count`.
  RINGLET_HD constexpr std::size_t offset(std::size_t i) const { return i * base + (i < longer ? i : longer); }
  /// Elements in part `i`.
  RINGLET_HD constexpr std::size_t length(std::size_t i) const { return base + (i < longer); }
  /// Elements in the longest part.
  RINGLET_HD constexpr std::size_t longest() const { return base + (longer != 0); }
};

}  // namespace ringlet
