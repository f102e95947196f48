// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <vector>

// What several programs here need to take times.

/// The middle one; of an even number the upper.
inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// Seconds that a call of `f` takes, as the mean of `n` calls one after the other.
template <class F>
double seconds_of(int n, F&& f) {
  auto const begin = std::chrono::steady_clock::now();
  for (int i = 0; i < n; ++i) f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / n;
}

/// A value that this process shares with those that are forked from it, zeroed.
/// @tparam T trivially destructible, valid when zeroed
template <class T>
class shared_with_children {
 public:
  shared_with_children() {
    void* const p = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    value_ = ::new (p) T{};
  }
  shared_with_children(shared_with_children const&) = delete;
  ~shared_with_children() { ::munmap(static_cast<void*>(value_), sizeof(T)); }
  T* operator->() const { return value_; }
  T& operator*() const { return *value_; }

 private:
  T* value_;
};

/// The least that two processors can do together: each writes a flag of its own and waits for the other's. No library,
/// no data, no call of the system.
struct flags {
  alignas(128) std::atomic<std::uint64_t> there;
  alignas(128) std::atomic<std::uint64_t> back;

  /// Seconds from rank 0's store until it has seen rank 1's answer; mean of `n`. Both ranks call it.
  double round_trip(int rank, int n) {
    std::uint64_t i = back.load();
    return seconds_of(n, [&] {
      ++i;
      if (rank == 0) {
        there.store(i, std::memory_order_release);
        while (back.load(std::memory_order_acquire) != i) {
        }
      } else {
        while (there.load(std::memory_order_acquire) != i) {
        }
        back.store(i, std::memory_order_release);
      }
    });
  }
};
