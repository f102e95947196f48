// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "moods.hpp"
#include "ringlet/call.hpp"
#include "ringlet/link.hpp"
#include "ringlet/slice.hpp"

namespace model {

/// A queue of slices in the memory of one thread, which holds both ends to their contracts and is as unpleasant as the
/// contracts allow: it has no credit when it does not feel like it, shows what has arrived when it likes, lands final
/// slices in outputs or does not, and fetches what was put as late as it can.
class moody_queue {
 public:
  static constexpr std::size_t slot_bytes = 64;

  moody_queue(dice& d, std::size_t slots, unsigned temper)
      : dice_(&d), sender_(d, temper), receiver_(d, temper), parcels_(slots) {}

  /// Whether all that was sent was taken.
  bool empty() const { return filled_ == 0 && !given_ && !shown_; }

  template <class T>
  ringlet::slice<T> try_acquire(ringlet::placement where) {
    if (!given_) {
      if (filled_ == parcels_.size() || !sender_.answers()) return {};
      prepare<T>(where);
      given_ = true;
    }
    expect(same(where, back().where), "the sender asks for another place before it commits the first");
    return {reinterpret_cast<T*>(back().lies), where.count};
  }
  void announce(ringlet::call const& c) { announced_ = c; }
  void commit() {
    expect(given_, "a commit without a place");
    given_ = false;
    send(nullptr);
  }
  template <class T>
  bool try_put(ringlet::slice<T const> from, ringlet::placement where) {
    expect(!given_, "a put while there is a place that was not committed");
    if (filled_ == parcels_.size() || !sender_.answers()) return false;
    prepare<T>(where);
    std::copy_n(reinterpret_cast<std::byte const*>(from.data), back().bytes, back().as_put);  // may be null and none
    send(reinterpret_cast<std::byte const*>(from.data));
    if (dice_->one_in(4)) fetch(dice_->below(filled_ + 1));
    return true;
  }
  bool drained() {
    if (dice_->one_in(4)) fetch(dice_->below(filled_ + 1));
    return fetched_ == filled_;
  }

  template <class T>
  ringlet::slice<T> try_peek(ringlet::placement where) {
    if (!shown_) {
      if (filled_ == 0 || !receiver_.answers()) return {};
      fetch(1);
      shown_ = true;
    }
    expect(same(where, front().where), "sender and receiver expect different slices");
    return {reinterpret_cast<T*>(front().lies), where.count};
  }
  ringlet::call const& announced() const {
    expect(shown_, "asked for a call before the slice that brings it");
    return parcels_[first_].announced;
  }
  void release() {
    expect(shown_, "a release of what was not shown");
    std::fill(front().slot, front().slot + slot_bytes, std::byte{0xdd});
    shown_ = false;
    first_ = (first_ + 1) % parcels_.size();
    --filled_, --fetched_;
  }

  void sender_posts() { ++sender_operation_; }
  void receiver_posts(ringlet::slice<std::byte> output) { output_ = output, ++receiver_operation_; }

 private:
  struct parcel {
    ringlet::placement where;
    std::size_t bytes;
    ringlet::call announced;
    std::byte* lies;        // in the slot, or landed
    std::byte const* from;  // with the sender still, if not null
    alignas(16) std::byte slot[slot_bytes], as_put[slot_bytes];
  };

  static bool same(ringlet::placement const& a, ringlet::placement const& b) {
    return a.count == b.count && a.final == b.final && (!a.final || a.offset == b.offset);
  }
  parcel& front() { return parcels_[first_]; }
  parcel& back() { return parcels_[(first_ + filled_) % parcels_.size()]; }

  template <class T>
  void prepare(ringlet::placement where) {
    parcel& p = back();
    p.where = where;
    p.bytes = where.count * sizeof(T);
    expect(p.bytes <= slot_bytes, "a slice is larger than a slot");
    std::fill(p.slot, p.slot + slot_bytes, std::byte{0xee});
    p.lies = p.slot;
    // Where the receiver is in the same operation, and has opened its output.
    if (where.final && where.count != 0 && output_.data != nullptr && sender_operation_ == receiver_operation_ &&
        !dice_->one_in(4)) {
      std::size_t const offset = where.offset * sizeof(T);
      expect(offset + p.bytes <= output_.count, "a slice would land beyond the output");
      p.lies = output_.data + offset;
    }
  }
  void send(std::byte const* from) {
    back().from = from;
    back().announced = announced_;
    announced_ = {};
    ++filled_;
    if (from == nullptr && fetched_ + 1 == filled_) ++fetched_;
  }
  // Lets the oldest `n` slices arrive.
  void fetch(std::size_t n) {
    for (; fetched_ < n; ++fetched_) {
      parcel& p = parcels_[(first_ + fetched_) % parcels_.size()];
      if (p.from == nullptr) continue;
      expect(std::memcmp(p.from, p.as_put, p.bytes) == 0, "the sender changed what it had put before it was drained");
      std::memcpy(p.lies, p.as_put, p.bytes);
      p.from = nullptr;
    }
  }

  dice* dice_;
  mood sender_, receiver_;
  std::vector<parcel> parcels_;
  std::size_t first_ = 0, filled_ = 0, fetched_ = 0;  // fetched: of the filled ones, those that do not need the sender
  bool given_ = false, shown_ = false;
  ringlet::call announced_;
  ringlet::slice<std::byte> output_;
  unsigned sender_operation_ = 0, receiver_operation_ = 0;
};

/// The ends of two moody queues.
/// @tparam Lands whether it is a `landing_link`
/// @tparam Puts whether its sending end is `zero_copy_outbound`
template <bool Lands, bool Puts>
class moody_link {
 public:
  class sender {
   public:
    explicit sender(moody_queue& q) : queue_(&q) {}
    template <class T>
    ringlet::slice<T> try_acquire(ringlet::placement where) {
      return queue_->try_acquire<T>(where);
    }
    template <class T>
    bool try_put(ringlet::slice<T const> from, ringlet::placement where) requires Puts {
      return queue_->try_put<T>(from, where);
    }
    void announce(ringlet::call const& c) { queue_->announce(c); }
    void commit() { queue_->commit(); }
    bool drained() { return queue_->drained(); }

   private:
    moody_queue* queue_;
  };

  moody_link(moody_queue& out, moody_queue& in, bool const& broken)
      : out_(&out), in_(&in), next_(out), broken_(&broken) {}
  sender& next() { return next_; }
  moody_queue& prev() { return *in_; }
  bool broken() const { return *broken_; }
  template <class T>
  void post(ringlet::slice<T> output) requires Lands {
    out_->sender_posts();
    in_->receiver_posts({reinterpret_cast<std::byte*>(output.data), output.count * sizeof(T)});
  }

 private:
  moody_queue *out_, *in_;
  sender next_;
  bool const* broken_;
};

}  // namespace model
