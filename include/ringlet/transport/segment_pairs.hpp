// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ringlet/call.hpp"
#include "ringlet/config.hpp"
#include "ringlet/error.hpp"
#include "ringlet/link.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/transport.hpp"
#include "ringlet/transport/bell.hpp"
#include "ringlet/transport/slot_ring.hpp"

namespace ringlet {

/// Links between any two ranks that share memory, as `pairwise` asks for them. Nothing is there until it is used: who
/// first sends to a rank makes the queue in memory of its own, and says in its segment where; the receiver looks there.
/// @tparam X the transport, which derives from this and from `segment_peers`, and has, for this class only,
///   `make_room(bytes)`, zeroed memory of this rank as a pair of its address and a number other than 0, and
///   `room_of(peer, number, bytes)`, the address of a peer's here
template <class X>
class segment_pairs {
 public:
  class pair_link {
   public:
    class sender {
     public:
      template <class T>
      slice<T> try_acquire(placement where) {
        return end_->try_acquire<T>(where);
      }
      void announce(call const& c) { end_->announce(c); }
      void commit() {
        end_->commit();
        receiver_->ring();
      }
      bool drained() const { return true; }

     private:
      friend class segment_pairs;
      std::optional<slot_ring<>::sender> end_;  // the queue is there
      bell* receiver_ = nullptr;
    };
    class receiver {
     public:
      template <class T>
      slice<T> try_peek(placement where) {
        if (!end_ && !find()) return {};
        return end_->try_peek<T>(where);
      }
      call const& announced() const { return end_->announced(); }
      void release() {
        end_->release();
        x_->bell_of(peer_).ring();
      }

     private:
      friend class pair_link;
      bool find() {
        std::uint64_t const number = x_->pair_word(peer_, x_->rank()).acquire();
        if (number == 0 || x_->broken()) return false;
        try {
          end_.emplace(queue(x_->room_of(peer_, number, room_bytes(*x_)), *x_));
        } catch (error const& e) {  // a message cannot wait for what will not be
          x_->tell(fault(e.why(), x_->rank(), "rank %d: %s", x_->rank(), e.words().c_str()));
        }
        return end_.has_value();
      }
      X* x_ = nullptr;
      int peer_ = -1;
      std::optional<slot_ring<>::receiver> end_;
    };

    pair_link(X& x, int peer) : x_(&x) { prev_.x_ = &x, prev_.peer_ = peer; }
    sender& next() { return next_; }
    receiver& prev() { return prev_; }
    bool broken() const { return x_->broken(); }

   private:
    friend class segment_pairs;
    X* x_;
    sender next_;
    receiver prev_;
  };

  /// As `pairwise` says.
  /// @throws error(errc::out_of_memory) when there is no memory for the queue
  pair_link& pair(int peer, bool to_send) {
    X& x = static_cast<X&>(*this);
    if (links_.empty()) {
      links_.reserve(static_cast<std::size_t>(x.size()));  // they stay where they are
      for (int r = 0; r < x.size(); ++r) links_.emplace_back(x, r);
    }
    pair_link& l = links_[static_cast<std::size_t>(peer)];
    if (to_send && !l.next_.end_) {
      auto const [room, number] = x.make_room(room_bytes(x));
      l.next_.end_.emplace(queue(room, x));
      l.next_.receiver_ = &x.bell_of(peer);
      x.pair_word(x.rank(), peer).release(number);
    }
    return l;
  }
  std::size_t pair_slots() const { return static_cast<X const&>(*this).slots(); }
  std::size_t pair_slot_bytes() const { return pair_slot_bytes_of(static_cast<X const&>(*this)); }

 private:
  struct counters {
    alignas(interference) word filled;
    alignas(interference) word credit;
  };
  // No larger than what one message should keep in a cache.
  static std::size_t pair_slot_bytes_of(X const& x) {
    return x.slot_bytes() < std::size_t{64} << 10 ? x.slot_bytes() : std::size_t{64} << 10;
  }
  static std::size_t room_bytes(X const& x) {
    return sizeof(counters) + slot_ring<>::bytes(x.slots(), pair_slot_bytes_of(x));
  }
  static slot_ring<> queue(std::byte* room, X const& x) {
    auto* const c = reinterpret_cast<counters*>(room);
    return {&c->filled, &c->credit, room + sizeof(counters), x.slots(), pair_slot_bytes_of(x)};
  }

  std::vector<pair_link> links_;  // by peer
};

}  // namespace ringlet
