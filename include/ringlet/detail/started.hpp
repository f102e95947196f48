// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "ringlet/clock.hpp"
#include "ringlet/slice.hpp"

// What a communicator knows of the operations that it runs, and of its patience with them.

namespace ringlet::detail {

// The end of a time from now on, which may be as long as one likes.
inline time_point deadline_after(std::chrono::milliseconds time) {
  constexpr std::chrono::milliseconds century = std::chrono::hours(24 * 365 * 100);
  return std::chrono::steady_clock::now() + (time < century ? time : century);
}

// An operation that has been started, as its communicator sees it. A pointer to a function, not a virtual one: the
// operation that a caller polls is polled directly; those before it, and one that is waited for, through the pointer.
struct started {
  started* next = nullptr;
  status state = status::pending;
  std::uint64_t sequence = 0;
  std::uint64_t moves = 0;  // changes when it has come further
  status (*run)(started&) noexcept = nullptr;
};

// How long a wait has lasted. What counts is time spent waiting: a longer gap between two polls is the caller's, not a
// wait.
class patience {
 public:
  // Called at each poll in vain: whether it is time to look at the peers.
  // @param moved whether what is waited for got on
  bool is_up(bool moved) noexcept {
    auto const now = std::chrono::steady_clock::now();
    waited_ += now - last_ < away ? now - last_ : away;
    last_ = now;
    if (moved) waited_ = {}, looked_ = now;
    if (now - looked_ <= look_after) return false;
    looked_ = now;
    return true;
  }
  bool over(std::chrono::milliseconds timeout) const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(waited_) > timeout;
  }

 private:
  static constexpr std::chrono::milliseconds look_after{20};
  static constexpr std::chrono::milliseconds away{100};
  std::chrono::steady_clock::time_point last_, looked_;
  std::chrono::steady_clock::duration waited_{};
};

}  // namespace ringlet::detail
