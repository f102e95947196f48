// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <time.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ringlet/config.hpp"
#include "ringlet/worker.hpp"

namespace ringlet {

/// A worker that runs on a device, or as if on one: besides what every worker can do, it can wait for other ranks.
///
/// `pause(k)`: called by a member that has looked for something in vain for the k-th time in a row, counted from 0. It
/// lets others run, and returns soon. Members need not call it alike.
///
/// `common()`: `common_bytes` bytes that all members share while the kernel runs, aligned to 16, not initialised: the
/// fastest memory that they have in common.
template <class W>
concept kernel_worker = worker<W> && requires(W const w, unsigned k) {
  { w.pause(k) } -> std::same_as<void>;
  { w.common() } -> std::same_as<void*>;
};

/// Bytes that the members of a `kernel_worker` share.
inline constexpr std::size_t common_bytes = 256;

namespace detail {
struct any_kernel_worker : this_thread {
  RINGLET_HD void pause(unsigned) const {}
  RINGLET_HD void* common() const { return nullptr; }
};
}  // namespace detail

/// What a device runs: a value that is copied to it, and called there by every member of every block.
///
/// Contract. `body(worker, block, blocks)` with the worker whose members are the threads of this block, the block's
/// number and the number of all blocks. All blocks are on the device at the same time, so they may wait for each other,
/// and for other ranks', but not for ever. It is called with any `kernel_worker`, so it is a template:
/// @code
/// struct fill {
///   float* values;
///   std::size_t count;
///   template <ringlet::kernel_worker W>
///   RINGLET_HD void operator()(W const& worker, unsigned block, unsigned blocks) const {
///     for (std::size_t i = block * worker.size() + worker.rank(); i < count; i += blocks * worker.size())
///       values[i] = 1;
///   }
/// };
/// @endcode
template <class B>
concept kernel_body = std::is_trivially_copyable_v<B> &&
    requires(B const body, detail::any_kernel_worker const& worker, unsigned n) {
  body(worker, n, n);
};

/// The time in nanoseconds since some moment: for measuring how long a wait has taken, on this device or on this host.
RINGLET_HD inline std::uint64_t device_clock() {
#if defined(__CUDA_ARCH__)
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000u + static_cast<std::uint64_t>(now.tv_nsec);
#endif
}

// The two workers of a device. The host's pass over the same file sees them as one thread each: bodies are guarded,
// never declarations, or nvcc's passes would see different programs.

namespace detail {
// What does not depend on how many threads a worker has. Its namespace is where `combine` finds the loops for them.
struct of_a_device {
  RINGLET_HD void pause([[maybe_unused]] unsigned k) const {
#if defined(__CUDA_ARCH__)
    if (k > 64) __nanosleep(40);
#endif
  }
  RINGLET_HD void* common() const {
#if defined(__CUDA_ARCH__)
    __shared__ alignas(16) unsigned char place[common_bytes];
#else
    alignas(16) static thread_local unsigned char place[common_bytes];
#endif
    return place;
  }
};
}  // namespace detail

/// The threads of a block of a device, in one dimension, as one worker.
struct this_block : detail::of_a_device {
  /// How long the result of a leader may be.
  static constexpr std::size_t longest_result = 32;

#if defined(__CUDA_ARCH__)
  RINGLET_HD unsigned rank() const { return threadIdx.x; }
  RINGLET_HD unsigned size() const { return blockDim.x; }
  RINGLET_HD void sync() const { __syncthreads(); }
#else
  RINGLET_HD unsigned rank() const { return 0; }
  RINGLET_HD unsigned size() const { return 1; }
  RINGLET_HD void sync() const {}
#endif
  RINGLET_ANY_EXEC
  template <class F>
  RINGLET_HD std::invoke_result_t<F&> leader(F f) const {
#if defined(__CUDA_ARCH__)
    using result = std::invoke_result_t<F&>;
    if constexpr (std::is_same_v<result, bool>) {
      return __syncthreads_or(threadIdx.x == 0 ? f() : false) != 0;  // one barrier that tells
    } else {
      static_assert(std::is_trivially_copyable_v<result> && sizeof(result) <= longest_result);
      if (threadIdx.x == 0) *reinterpret_cast<result*>(told()) = f();
      __syncthreads();
      result const r = *reinterpret_cast<result const*>(told());
      __syncthreads();  // before the next leader speaks
      return r;
    }
#else
    return f();
#endif
  }

#if defined(__CUDA_ARCH__)
 private:
  // One place for all leaders of a block.
  RINGLET_HD static unsigned char* told() {
    __shared__ alignas(16) unsigned char place[longest_result];
    return place;
  }
#endif
};

/// The threads of a warp of a device as one worker; blocks are in one dimension, of a multiple of 32 threads.
struct this_warp : detail::of_a_device {
#if defined(__CUDA_ARCH__)
  RINGLET_HD unsigned rank() const { return threadIdx.x % 32; }
  RINGLET_HD unsigned size() const { return 32; }
  RINGLET_HD void sync() const { __syncwarp(); }
#else
  RINGLET_HD unsigned rank() const { return 0; }
  RINGLET_HD unsigned size() const { return 1; }
  RINGLET_HD void sync() const {}
#endif
  RINGLET_ANY_EXEC
  template <class F>
  RINGLET_HD std::invoke_result_t<F&> leader(F f) const {
#if defined(__CUDA_ARCH__)
    using result = std::invoke_result_t<F&>;
    static_assert(std::is_trivially_copyable_v<result>);
    result r{};
    unsigned words[(sizeof r + 3) / 4] = {};
    if (rank() == 0) r = f();
    std::memcpy(words, &r, sizeof r);
    for (unsigned& word : words) word = __shfl_sync(0xffffffffu, word, 0);
    __syncwarp();  // what the leader wrote to memory
    std::memcpy(&r, words, sizeof r);
    return r;
#else
    return f();
#endif
  }
};

static_assert(kernel_worker<this_block> && kernel_worker<this_warp>);

}  // namespace ringlet

#include "ringlet/detail/device_loops.hpp"
