// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Links between any two ranks over libfabric, as `pairwise` asks for them, and chords, as `chorded` does. Slices are
// messages, each with a tag of its own: who sends it, and its number. For each slice that it has taken, the receiver
// sends one back, an acknowledgement, before which it posts the receive for the slice that will come to the same slot.
// So at most as many slices are on their way as there are slots. Before its first slice to a rank, the sender says so
// (fabric_peers.hpp), and the receiver posts its receives, whether it expects a message yet or not: some providers let
// nothing else through a connection while a message waits for its receive, no collective either.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/call.hpp"
#include "ringlet/chords.hpp"
#include "ringlet/config.hpp"
#include "ringlet/error.hpp"
#include "ringlet/link.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/transport/fabric_endpoint.hpp"
#include "ringlet/transport/fabric_link.hpp"
#include "ringlet/transport/fabric_peers.hpp"
#include "ringlet/transport/fabric_wire.hpp"

namespace ringlet {

/// One direction between two ranks: to the peer, or from it.
class fabric_pair_link {
 public:
  /// The end that sends. Of a link that receives it only says whether all acknowledgements are on their way.
  class sender {
   public:
    explicit sender(fabric_pair_link& l) : l_(&l) {}
    template <class T>
    slice<T> try_acquire(placement where) {
      if (!l_->is_free() && (l_->traffic_->progress(), !l_->is_free())) return {};
      l_->current().bytes = where.count * sizeof(T);
      return {reinterpret_cast<T*>(l_->slot(l_->done_) + fabric_shape::header), where.count};
    }
    void announce(call const& c) { std::memcpy(l_->slot(l_->done_), &c, sizeof c); }
    void commit() { ++l_->done_, l_->flush(); }
    bool drained() const {
      if (!l_->idle()) l_->traffic_->progress();
      return l_->idle();
    }

   private:
    fabric_pair_link* l_;
  };
  /// The end that receives.
  class receiver {
   public:
    explicit receiver(fabric_pair_link& l) : l_(&l) {}
    template <class T>
    slice<T> try_peek(placement where) {
      if (!l_->is_here() && (l_->traffic_->progress(), !l_->is_here())) return {};
      return {reinterpret_cast<T*>(l_->slot(l_->done_) + fabric_shape::header), where.count};
    }
    call const& announced() const { return *reinterpret_cast<call const*>(l_->slot(l_->done_)); }
    /// As `chorded` says.
    call const* waiting() const { return l_->is_here() ? &announced() : nullptr; }
    void release() { ++l_->done_, l_->flush(); }

   private:
    fabric_pair_link* l_;
  };

  /// What a link is for: messages of its user's, or a step of collectives.
  enum class use : std::uint64_t { messages, chord };

  /// @param own this rank
  /// @param at the peer's address at the endpoint
  /// @throws error(errc::out_of_memory) when there is no memory for the slots, in the provider's words
  fabric_pair_link(fabric_traffic& t, int own, int peer, fi_addr_t at, bool sends, std::size_t slots, std::size_t bytes,
                   use what = use::messages)
      : traffic_(&t),
        use_(what),
        own_(own),
        peer_(peer),
        at_(at),
        sends_(sends),
        stride_(fabric_shape::header + bytes),
        slots_(slots),
        memory_(detail::fabric_allocate(slots * (stride_ + 8))),
        region_(&t.endpoint->enroll(memory_.get(), slots * (stride_ + 8), false)) {
    for (state& s : slots_)
      for (fabric_ticket* t : {&s.slice, &s.acknowledgement}) t->what = fabric_ticket::use::pair, t->peer = peer;
    flush();
  }
  fabric_pair_link(fabric_pair_link const&) = delete;

  sender& next() { return next_; }
  receiver& prev() { return prev_; }
  bool broken() {
    if (traffic_->waiting) traffic_->progress();
    return traffic_->stopped();
  }

  int peer() const { return peer_; }
  use what_for() const { return use_; }
  /// Whether the peer has taken all that was sent, or has been told of all that was taken.
  bool acknowledged() const {
    return idle() && std::none_of(slots_.begin(), slots_.end(), [](state const& s) { return s.acknowledgement.out; });
  }
  /// Posts what is due. What the provider does not take now, a later poll tries again.
  void flush() {
    if (!traffic_->over() && !(sends_ ? flush_sender() : flush_receiver())) traffic_->waiting = true;
  }

 private:
  using posted = fabric_traffic::posted;
  struct state {
    fabric_ticket slice, acknowledgement;
    std::size_t bytes = 0;
    bool expects = false;  // the receive for the acknowledgement is there, the slice has yet to leave
  };

  // 48 bits, since some providers take no more. Tags of rings have less than 40.
  std::uint64_t tag(bool acknowledges, int from, std::uint64_t number) const {
    return std::uint64_t{1} << 47 | std::uint64_t{acknowledges} << 46 | static_cast<std::uint64_t>(use_) << 45 |
           static_cast<std::uint64_t>(from) << 20 | (number & 0xfffff);
  }
  state& of(std::uint64_t k) { return slots_[static_cast<std::size_t>(k % slots_.size())]; }
  state const& of(std::uint64_t k) const { return slots_[static_cast<std::size_t>(k % slots_.size())]; }
  state& current() { return of(done_); }
  std::byte* slot(std::uint64_t k) const {
    return memory_.get() + static_cast<std::size_t>(k % slots_.size()) * stride_;
  }
  std::byte* word(std::uint64_t k) const {
    return memory_.get() + slots_.size() * stride_ + static_cast<std::size_t>(k % slots_.size()) * 8;
  }
  bool is_free() const {
    state const& s = of(done_);
    return posted_ == done_ && !s.slice.out && !s.acknowledgement.out && !traffic_->over();
  }
  bool is_here() const { return armed_ > done_ && !of(done_).slice.out; }
  // Whether the provider has all that was committed or released. It has it in memory of this link, so nobody needs to
  // wait for more: a peer that has taken the last slice may be gone before the provider says that the slice has left.
  bool idle() const { return posted_ == done_; }

  bool flush_sender() {
    for (; posted_ != done_; ++posted_) {
      state& s = of(posted_);
      if (!s.expects && traffic_->endpoint->receive(*region_, word(posted_), 8, tag(true, peer_, posted_), 0,
                                                    s.acknowledgement) != posted::yes)
        return false;
      s.expects = true;
      fabric_endpoint::message m;
      m.add(slot(posted_), fabric_shape::header + s.bytes, region_->descriptor);
      if (traffic_->endpoint->send(at_, m, tag(false, own_, posted_), s.slice) != posted::yes) return false;
      s.expects = false;
    }
    return true;
  }
  bool flush_receiver() {
    for (; armed_ != done_ + slots_.size(); ++armed_)
      if (traffic_->endpoint->receive(*region_, slot(armed_), stride_, tag(false, peer_, armed_), 0,
                                      of(armed_).slice) != posted::yes)
        return false;
    for (; posted_ != done_; ++posted_) {
      state& s = of(posted_);
      fabric_endpoint::message m;
      m.add(word(posted_), 8, region_->descriptor);
      if (s.acknowledgement.out ||
          traffic_->endpoint->send_few(at_, m, tag(true, own_, posted_), s.acknowledgement) != posted::yes)
        return false;
    }
    return true;
  }

  fabric_traffic* traffic_;
  use use_;
  int own_, peer_;
  fi_addr_t at_;
  bool sends_;
  std::size_t stride_;
  std::vector<state> slots_;
  detail::fabric_memory memory_;
  fabric_endpoint::region const* region_;
  // Slices committed, or released; of these, sent, or acknowledged; receives posted.
  std::uint64_t done_ = 0, posted_ = 0, armed_ = 0;
  sender next_{*this};
  receiver prev_{*this};
};

/// A chord: a link to one rank, and one from another.
class fabric_chord {
 public:
  class sender : public fabric_pair_link::sender {
   public:
    sender(fabric_pair_link& to, fabric_pair_link& from) : fabric_pair_link::sender(to), beside_(&from) {}
    bool drained() const { return fabric_pair_link::sender::drained() && beside_->next().drained(); }

   private:
    fabric_pair_link* beside_;
  };

  fabric_chord(fabric_pair_link& to, fabric_pair_link& from) : to_(&to), from_(&from), next_(to, from) {}
  sender& next() { return next_; }
  fabric_pair_link::receiver& prev() { return from_->prev(); }
  bool broken() { return to_->broken(); }

 private:
  fabric_pair_link *to_, *from_;
  sender next_;
};

/// All links of a rank to others. Those for messages are made when they are first used.
class fabric_pairs {
 public:
  fabric_pairs() = default;
  fabric_pairs(fabric_pairs const&) = delete;

  /// Once ranks know each other.
  /// @param addresses all ranks' addresses, by rank
  void open(fabric_traffic& t, fabric_peers& peers, std::vector<std::string> addresses) {
    traffic_ = &t, peers_ = &peers;
    t.pairs = this, t.flush_pairs = flush;
    at_.assign(addresses.size(), FI_ADDR_UNSPEC);
    addresses_ = std::move(addresses);
  }
  /// Makes the chords, `count` of them.
  void open_chords(int count) {
    int const size = peers_->size(), rank = peers_->rank();
    chord_bytes_ = traffic_->shape.most_by_chords(size);
    chords_.reserve(static_cast<std::size_t>(count));
    for (int k = 0; k < count; ++k) {
      std::size_t const bytes = (chord_share(k, size) * chord_bytes_ + interference - 1) / interference * interference;
      auto const make = [&](int peer, bool to_send) -> fabric_pair_link& {
        links_[to_send].push_back(std::make_unique<fabric_pair_link>(*traffic_, rank, peer, address_of(peer), to_send,
                                                                     2, bytes, fabric_pair_link::use::chord));
        return *links_[to_send].back();
      };
      int const far = 1 << k;
      fabric_pair_link& to = make((rank + far) % size, true);
      chords_.emplace_back(to, make((rank - far + size) % size, false));
    }
  }
  fabric_chord& chord(int k) { return chords_[static_cast<std::size_t>(k)]; }
  int chords() const { return static_cast<int>(chords_.size()); }
  std::size_t chord_bytes() const { return chord_bytes_; }

  /// As `pairwise` says.
  fabric_pair_link& link(int peer, bool to_send) {
    if (!traffic_->endpoint->has_tags())
      throw error(errc::unsupported, "provider " + traffic_->endpoint->provider() +
                                         " has no tagged messages, which send and recv need: choose another one");
    for (auto const& l : links_[to_send])
      if (l->peer() == peer && l->what_for() == fabric_pair_link::use::messages) return *l;
    links_[to_send].push_back(std::make_unique<fabric_pair_link>(*traffic_, peers_->rank(), peer, address_of(peer),
                                                                 to_send, traffic_->shape.slots, slot_bytes()));
    if (to_send) {
      fabric_peers::letter l;
      l.what = fabric_peers::letter::kind::sends;
      peers_->tell(peer, l);
    }
    return *links_[to_send].back();
  }
  std::size_t slot_bytes() const { return std::min(traffic_->shape.slot_bytes, std::size_t{256} << 10); }

  /// Whether a peer that is still there has yet to take something: of what was sent to it, or of the acknowledgements.
  template <class Gone>
  bool wait(bool of_sent, Gone gone) const {
    return std::any_of(links_[of_sent].begin(), links_[of_sent].end(),
                       [&](auto const& l) { return !l->acknowledged() && !gone(l->peer()); });
  }

 private:
  fi_addr_t address_of(int peer) {
    fi_addr_t& at = at_[static_cast<std::size_t>(peer)];
    if (at == FI_ADDR_UNSPEC) at = traffic_->endpoint->insert(addresses_[static_cast<std::size_t>(peer)]);
    return at;
  }
  static void flush(fabric_traffic& t) {
    for (auto const& direction : static_cast<fabric_pairs*>(t.pairs)->links_)
      for (auto const& l : direction) l->flush();
  }

  fabric_traffic* traffic_ = nullptr;
  fabric_peers* peers_ = nullptr;
  std::vector<std::string> addresses_;
  std::vector<fi_addr_t> at_;
  std::vector<std::unique_ptr<fabric_pair_link>> links_[2];
  std::vector<fabric_chord> chords_;
  std::size_t chord_bytes_ = 0;
};

}  // namespace ringlet
