// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <type_traits>

#include "ringlet/config.hpp"

namespace ringlet {

namespace detail {
struct always {
  RINGLET_HD constexpr bool operator()() const { return true; }
};
}  // namespace detail

/// Who executes an operation: one thread, or several that act as one (a warp or a block of a device).
///
/// All members of a worker make the same calls in the same order. A worker is a small value, copied freely.
/// - `rank()`, `size()`: which member this is, `0 <= rank() < size()`; loops over elements start at one and step by the
///   other.
/// - `sync()`: returns when all members have called it; what each wrote before is then seen by all.
/// - `leader(f)`: runs `f` on one member and gives its result to all. What the leader wrote is then seen by all.
template <class W>
concept worker = requires(W const w) {
  { w.rank() } -> std::convertible_to<unsigned>;
  { w.size() } -> std::convertible_to<unsigned>;
  { w.sync() } -> std::same_as<void>;
  { w.leader(detail::always{}) } -> std::same_as<bool>;
};

/// The worker of host code: the thread that calls, alone.
struct this_thread {
  RINGLET_HD constexpr unsigned rank() const { return 0; }
  RINGLET_HD constexpr unsigned size() const { return 1; }
  RINGLET_HD constexpr void sync() const {}
  RINGLET_ANY_EXEC
  template <class F>
  RINGLET_HD constexpr std::invoke_result_t<F&> leader(F f) const {
    return f();
  }
};

}  // namespace ringlet
