// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

#include "ringlet/clock.hpp"
#include "ringlet/config.hpp"

namespace ringlet {

/// By which a rank that sleeps is woken, in memory that its wakers can reach. Plain data, valid when zeroed.
///
/// A waker only looks whether somebody sleeps: a load of a word that hardly ever changes. There is no fence between
/// what it has just stored and that load, so once in a long while it may miss a sleeper that is just lying down. Sleep
/// is therefore short: a missed wake costs a nap, where a fence would cost every slice.
struct bell {
  /// The longest sleep.
  static constexpr std::chrono::milliseconds nap{1};

  alignas(interference) std::uint32_t rung;
  std::uint32_t asleep;

  /// Wakes the sleeper, if there is one. Any thread or process.
  void ring() {
    if (std::atomic_ref(asleep).load(std::memory_order_relaxed) == 0) return;
    std::atomic_ref(rung).fetch_add(1, std::memory_order_release);
    ::syscall(SYS_futex, &rung, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }

  /// Lies down or sleeps, in turn: the first call says that somebody sleeps and returns, so that the caller looks once
  /// more at what it waits for; the second sleeps until the bell rings or the nap is over. Only the bell's owner.
  void rest() {
    std::atomic_ref sleeping(asleep), count(rung);
    if (sleeping.load(std::memory_order_relaxed) == 0) {
      heard_ = count.load(std::memory_order_acquire);
      sleeping.store(1, std::memory_order_seq_cst);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      return;
    }
    timespec const longest{0, std::chrono::nanoseconds(nap).count()};
    ::syscall(SYS_futex, &rung, FUTEX_WAIT, heard_, &longest, nullptr, 0);
    sleeping.store(0, std::memory_order_relaxed);
  }

 private:
  std::uint32_t heard_;
};

}  // namespace ringlet
