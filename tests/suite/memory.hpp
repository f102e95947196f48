// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

namespace suite {

// Memory in which buffers lie with guards before and after them. They lie as badly as their type allows: no more
// aligned than it must be.
class arena {
 public:
  explicit arena(std::span<std::byte> memory) : memory_(memory) {}

  // Forgets all buffers.
  void clear() { used_ = 0, buffers_.clear(); }
  // Room for `count` elements, which hold the pattern of the guards. Null when the count is 0 and `null_if_empty`.
  template <class T>
  std::span<T> place(std::size_t count, bool null_if_empty = false) {
    if (count == 0 && null_if_empty) return {};
    std::size_t const begin = (used_ + guard + 63) / 64 * 64 + alignof(T), end = begin + count * sizeof(T);
    if (end + guard > memory_.size()) throw std::runtime_error("the suite's arena is too small");
    std::memset(memory_.data() + used_, pattern, end + guard - used_);
    used_ = end + guard;
    buffers_.push_back({begin, end});
    return {reinterpret_cast<T*>(memory_.data() + begin), count};
  }
  // Whether nothing was written beside the buffers.
  bool guards_hold() const {
    std::size_t at = 0;
    auto clean = [&](std::size_t to) {
      return std::all_of(memory_.begin() + static_cast<std::ptrdiff_t>(at),
                         memory_.begin() + static_cast<std::ptrdiff_t>(to),
                         [](std::byte b) { return b == std::byte{pattern}; });
    };
    for (auto [begin, end] : buffers_) {
      if (!clean(begin)) return false;
      at = end;
    }
    return clean(used_);
  }
  // Bytes that two buffers of so many elements need.
  static std::size_t bytes(std::size_t count, std::size_t element) { return 2 * count * element + 8 * guard; }

  static constexpr unsigned char pattern = 0xa5;

 private:
  static constexpr std::size_t guard = 128;
  struct part {
    std::size_t begin, end;
  };
  std::span<std::byte> memory_;
  std::vector<part> buffers_;
  std::size_t used_ = 0;
};

}  // namespace suite
