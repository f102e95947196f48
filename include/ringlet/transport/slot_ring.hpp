// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>

#include "ringlet/call.hpp"
#include "ringlet/config.hpp"
#include "ringlet/link.hpp"
#include "ringlet/slice.hpp"

namespace ringlet {

/// One aligned 8-byte word in memory that two ranks share: one of them writes it, both may read it. Acquire and release
/// reach across the whole system, so it works between threads, processes and devices. Plain data: it may lie in memory
/// that was never constructed, but zeroed.
///
/// A model checker or a proof puts a class of the same two functions in its place.
struct word {
  alignas(8) std::uint64_t value;

  /// Reads; what the writer wrote before its `release` is visible afterwards.
  RINGLET_HD std::uint64_t acquire() const {
#if defined(__CUDA_ARCH__)
    std::uint64_t v;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(&value) : "memory");
    return v;
#else
    return __atomic_load_n(&value, __ATOMIC_ACQUIRE);
#endif
  }
  /// Writes, after everything that this thread wrote before. Only the word's one writer may call it.
  RINGLET_HD void release(std::uint64_t v) {
#if defined(__CUDA_ARCH__)
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(&value), "l"(v) : "memory");
#else
    __atomic_store_n(&value, v, __ATOMIC_RELEASE);
#endif
  }
};

/// A bounded one-way queue of slices in memory that both ends can load and store.
///
/// The slots and the count of filled ones live with the receiver, the count of credits with the sender: both ends poll
/// their own memory, and everything that crosses between them is a store. Each counter has one writer. Counters only
/// grow: slice k lies in slot k mod slots, is there once `filled > k`, and may be overwritten once `credit > k`.
/// Lamport ("Proving the correctness of multiprocess programs", 1977) proved the queue; tests/model explores this one.
///
/// Copies of this value describe the same queue; the two ends below hold what only they know.
/// @tparam Word the counter: `word`, or a model of it
template <class Word = word>
struct slot_ring {
  /// Bytes before the slice in a slot, for what its sender called.
  static constexpr std::size_t header = interference;
  static_assert(sizeof(call) <= header);

  Word* filled;      ///< slices committed so far; with the receiver, written by the sender
  Word* credit;      ///< slices released so far; with the sender, written by the receiver
  std::byte* slots;  ///< `slot_count` times `header + slot_bytes` bytes, aligned to `interference`; with the receiver
  std::size_t slot_count;  ///< at least 2
  std::size_t slot_bytes;  ///< capacity of a slot, a multiple of `interference`

  /// Bytes that the slots take.
  static RINGLET_HD constexpr std::size_t bytes(std::size_t slot_count, std::size_t slot_bytes) {
    return slot_count * (header + slot_bytes);
  }

  /// The sending end (`outbound`).
  class sender {
   public:
    RINGLET_HD explicit sender(slot_ring const& r) : ring_(r) {}
    /// Goes on after an end that has sent so many slices; credits are asked for anew.
    RINGLET_HD sender(slot_ring const& r, std::uint64_t sent)
        : ring_(r), sent_(sent), released_(sent - r.slot_count), index_(sent % r.slot_count) {}
    /// Slices sent so far.
    RINGLET_HD std::uint64_t count() const { return sent_; }

    template <class T>
    RINGLET_HD slice<T> try_acquire(placement where) {
      if (sent_ - released_ == ring_.slot_count) {
        released_ = ring_.credit->acquire();  // a credit is asked for only when the last known one is spent
        if (sent_ - released_ == ring_.slot_count) return {};
      }
      return {reinterpret_cast<T*>(slot() + header), where.count};
    }
    RINGLET_HD void announce(call const& c) { *reinterpret_cast<call*>(slot()) = c; }
    RINGLET_HD void commit() {
      if (++index_ == ring_.slot_count) index_ = 0;
      ring_.filled->release(++sent_);
    }
    RINGLET_HD bool drained() const { return true; }

   private:
    RINGLET_HD std::byte* slot() const { return ring_.slots + index_ * (header + ring_.slot_bytes); }
    slot_ring ring_;
    std::uint64_t sent_ = 0, released_ = 0;
    std::size_t index_ = 0;  // sent_ mod slot_count, without the division
  };

  /// The receiving end (`inbound`).
  class receiver {
   public:
    RINGLET_HD explicit receiver(slot_ring const& r) : ring_(r) {}
    /// Goes on after an end that has received so many slices.
    RINGLET_HD receiver(slot_ring const& r, std::uint64_t received)
        : ring_(r), received_(received), filled_(received), index_(received % r.slot_count) {}
    /// Slices received so far.
    RINGLET_HD std::uint64_t count() const { return received_; }

    template <class T>
    RINGLET_HD slice<T> try_peek(placement where) {
      if (received_ == filled_) {
        filled_ = ring_.filled->acquire();
        if (received_ == filled_) return {};
      }
      return {reinterpret_cast<T*>(slot() + header), where.count};
    }
    RINGLET_HD call const& announced() const { return *reinterpret_cast<call const*>(slot()); }
    RINGLET_HD void release() {
      if (++index_ == ring_.slot_count) index_ = 0;
      ring_.credit->release(++received_);
    }

   private:
    RINGLET_HD std::byte* slot() const { return ring_.slots + index_ * (header + ring_.slot_bytes); }
    slot_ring ring_;
    std::uint64_t received_ = 0, filled_ = 0;
    std::size_t index_ = 0;
  };
};

}  // namespace ringlet
