// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "ringlet/call.hpp"
#include "ringlet/clock.hpp"
#include "ringlet/detail/fabric_traffic.hpp"
#include "ringlet/link.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/transport/fabric_wire.hpp"

namespace ringlet {

/// From the previous rank.
class fabric_receiver {
 public:
  fabric_receiver(fabric_traffic& t, std::size_t lane) : t_(&t), lane_(lane), in_(t.shape.slots) {}

  template <class T>
  slice<T> try_peek(placement where) {
    std::byte* const at = peek(where.final ? where.offset * sizeof(T) : 0);
    if (at != nullptr && where.final && !counted_) count(where.count * sizeof(T));
    return {reinterpret_cast<T*>(at), where.count};
  }
  call const& announced() const {
    static constexpr call nothing{};
    return in_[index_].called ? *reinterpret_cast<call const*>(slot(index_)) : nothing;
  }
  /// As `chorded` says.
  call const* waiting() const {
    return in_[index_].here && in_[index_].called ? reinterpret_cast<call const*>(slot(index_)) : nullptr;
  }
  void release() {
    in_[index_].here = false;
    ++received_;
    if (++index_ == t_->shape.slots) index_ = 0;
    counted_ = false;
    flush();
  }

 private:
  friend class fabric_traffic;
  friend class fabric_sender;
  friend class fabric_link;
  struct incoming {
    fabric_ticket ticket;  // of the receive that waits here, at level 1
    bool here = false, landed = false, called = false;
  };

  std::byte* slot(std::size_t i) const { return t_->inbox->data + t_->shape.slot(lane_, i); }
  std::byte* peek(std::size_t offset) {
    if (!in_[index_].here) {
      t_->progress();
      if (!in_[index_].here) return nullptr;
    }
    incoming const& i = in_[index_];
    if (i.landed) return output_ + offset;
    return slot(index_) + (t_->level == 1 && !i.called ? 0 : fabric_shape::header);
  }
  void count(std::size_t bytes) {
    (in_[index_].landed ? t_->statistics.landed : t_->statistics.final_in_slots) += bytes;
    counted_ = true;
  }

  // Opens the output of the operation that begins, if the previous rank can write there and it is worth a message.
  void post(std::byte* output, std::size_t bytes) {
    ++operation_;
    output_ = output;
    auto const* const home = t_->level == 2 && bytes >= worth_a_note ? t_->endpoint->region_of(output, bytes) : nullptr;
    if (home == nullptr || note_ticket_.out) return;  // the last note has not arrived: slots will do
    auto const place = static_cast<std::uint64_t>(output - home->data);
    fabric_note const n{home->base + place, home->key, bytes, operation_};
    std::memcpy(note(), &n, sizeof n);
    note_waits_ = true;
    flush();
  }
  bool note_waits() const { return note_waits_; }
  /// Whether there is something that can and must be sent to the previous rank. What waits for the end of an earlier
  /// message is left to the next operation: that end may need the previous rank, and that one may be elsewhere.
  bool owes() const { return (credited_ != received_ && !credit_.out) || note_waits_; }
  /// Whether nothing is on its way to the previous rank, or must be sent to it.
  bool paid() const { return credited_ == received_ && !note_waits_ && !credit_.out && !note_ticket_.out; }

  std::byte* note() const { return t_->outbox->data + t_->shape.note(lane_, 0); }
  std::byte* credit() const { return t_->outbox->data + t_->shape.note(lane_, 1); }
  void flush() {
    using posted = fabric_traffic::posted;
    if (t_->over()) return;
    open_slots();
    // A credit for each slice, at once; several in one only when the provider is busy.
    if (std::uint64_t const owed = armed_ - std::min<std::uint64_t>(armed_, t_->shape.slots + credited_);
        owed != 0 && !credit_.out) {
      std::uint32_t const word = fabric_word::of(fabric_word::kind::credit, lane_, owed);
      if (t_->post_word(t_->prev, credit(), 8, t_->shape.sink(), word, credit_) == posted::yes) credited_ += owed;
    }
    if (note_waits_) {
      std::uint32_t const word = fabric_word::of(fabric_word::kind::note, lane_, operation_);
      std::size_t const place = t_->shape.note(lane_, operation_);
      if (t_->post_word(t_->prev, note(), sizeof(fabric_note), place, word, note_ticket_) == posted::yes)
        note_waits_ = false;
    }
    t_->waiting |= credited_ != received_ || note_waits_;
  }
  // Makes slots that were released fit to be sent to again: at level 1 a receive waits at each.
  void open_slots() {
    std::uint64_t const all = received_ + t_->shape.slots;
    if (t_->level == 2) armed_ = all;
    while (armed_ != all && wait_at(static_cast<std::size_t>(armed_ % t_->shape.slots))) ++armed_;
    t_->waiting |= armed_ != all;
  }
  bool wait_at(std::size_t i) {
    fabric_ticket& t = in_[i].ticket;
    t.what = fabric_ticket::use::slot, t.lane = static_cast<int>(lane_), t.slot = static_cast<int>(i);
    std::uint64_t const tag = fabric_word::tag(fabric_word::of(fabric_word::kind::slice, lane_, 0), i);
    return t_->endpoint->receive(*t_->inbox, slot(i), fabric_shape::header + t_->shape.slot_bytes, tag,
                                 fabric_word::open_slice, t) == fabric_traffic::posted::yes;
  }
  void came(std::uint32_t word) {
    std::size_t const i = fabric_word::number(word) % t_->shape.slots;
    if (in_[i].here) return t_->endpoint->fail({"a slice came to a slot that is not free", t_->prev.rank});
    in_[i].here = true;
    in_[i].landed = (word & fabric_word::landed) != 0;
    in_[i].called = (word & fabric_word::called) != 0;
  }

  // Bytes from which an output is opened: below, the copy costs less than the message.
  static constexpr std::size_t worth_a_note = std::size_t{64} << 10;

  fabric_traffic* t_;
  std::size_t lane_, index_ = 0;  // index_: received_ mod slots
  std::uint64_t received_ = 0, armed_ = 0, credited_ = 0, operation_ = 0;
  std::byte* output_ = nullptr;
  std::vector<incoming> in_;
  fabric_ticket credit_{.what = fabric_ticket::use::word}, note_ticket_{.what = fabric_ticket::use::word};
  bool note_waits_ = false, counted_ = false;
};

/// To the next rank.
class fabric_sender {
 public:
  fabric_sender(fabric_traffic& t, std::size_t lane, fabric_receiver const& beside)
      : t_(&t), beside_(&beside), lane_(lane), out_(t.shape.slots) {
    laps_ = fabric_word::numbers / t.shape.slots * t.shape.slots;
    for (std::size_t i = 0; i < out_.size(); ++i) {
      out_[i].ticket.lane = static_cast<int>(lane), out_[i].ticket.slot = static_cast<int>(i);
      out_[i].ticket.peer = t.next.rank;
    }
  }

  template <class T>
  slice<T> try_acquire(placement where) {
    if (!room()) return {};
    out_[index_].bytes = where.count * sizeof(T);
    return {reinterpret_cast<T*>(staging(index_) + fabric_shape::header), where.count};
  }
  void announce(call const& c) { call_ = c, called_ = true; }
  void commit() {
    outgoing& o = out_[index_];
    prepare(o, 0);
    advance();
    flush();
  }
  template <class T>
  bool try_put(slice<T const> from, placement where) {
    return put(reinterpret_cast<std::byte const*>(from.data), where.count * sizeof(T), where.final,
               where.offset * sizeof(T));
  }
  /// Whether the memory of everything that was sent is free again, and the previous rank has all credits that can be
  /// sent.
  bool drained() {
    auto const done = [this] { return flying_ == 0 && unposted_ == sent_ && !beside_->owes(); };
    if (!done()) t_->progress();
    return done();
  }

 private:
  friend class fabric_traffic;
  friend class fabric_link;
  struct outgoing {
    fabric_ticket ticket;
    std::uint32_t word = 0;
    std::size_t bytes = 0;
  };

  std::byte* staging(std::size_t i) const { return t_->outbox->data + t_->shape.slot(lane_, i); }
  bool room() {
    auto const open = [this] {
      // A credit may overtake the end of the transfer that it is for: a slot is free when both are there. This rank's
      // own note goes first, so that the previous rank has it before it has anything that follows from what is sent
      // here.
      return sent_ - acked_ < t_->shape.slots && !out_[index_].ticket.out && unposted_ == sent_ &&
             !beside_->note_waits() && !t_->over();
    };
    if (open()) return true;
    t_->progress();
    return open();
  }
  void prepare(outgoing& o, std::uint32_t flags) {
    if (std::exchange(called_, false)) {
      std::memcpy(staging(index_), &call_, sizeof call_);
      flags |= fabric_word::called;
    }
    o.word = fabric_word::of(fabric_word::kind::slice, lane_, sent_ % laps_, flags);
  }
  void advance() {
    ++sent_;
    if (++index_ == t_->shape.slots) index_ = 0;
  }

  bool put(std::byte const* from, std::size_t bytes, bool final, std::size_t offset) {
    if (!room()) return false;
    outgoing& o = out_[index_];
    fabric_endpoint& e = *t_->endpoint;
    auto const* const home = e.needs_local_registration() ? e.region_of(from, bytes) : nullptr;
    if (bytes == 0 || (e.needs_local_registration() && home == nullptr) || (called_ && !e.gathers())) {
      if (bytes != 0) std::memcpy(staging(index_) + fabric_shape::header, from, bytes);
      t_->statistics.staged += bytes;
      o.bytes = bytes;
      commit();
      return true;
    }
    fabric_endpoint::message m;
    auto to = t_->next.target(t_->shape.slot(lane_, index_) + (called_ ? 0 : fabric_shape::header));
    // What carries a call goes to its slot, where the receiver looks for it.
    fabric_note const* const n = final && !called_ ? note() : nullptr;
    bool const lands = n != nullptr && offset <= n->bytes && bytes <= n->bytes - offset;
    if (lands) to = {t_->next.at, n->address + offset, n->key};
    bool const called = called_;
    prepare(o, lands ? fabric_word::landed : 0);
    if (called) m.add(staging(index_), fabric_shape::header, t_->outbox->descriptor);
    m.add(from, bytes, home != nullptr ? home->descriptor : nullptr);
    if (post(o, index_, to, m) != fabric_traffic::posted::yes) {
      called_ = called;
      t_->progress();
      return false;
    }
    t_->statistics.from_place += bytes;
    ++flying_, ++unposted_;
    advance();
    return true;
  }
  // The next rank's output of this operation, if it has opened it.
  fabric_note const* note() const {
    if (noted_[operation_ % 2] != operation_ % fabric_word::numbers) return nullptr;
    // It stays here until this operation is over: the neighbour writes its next but one note after the next operation,
    // for which it needs all slices of this one.
    auto const* const n = reinterpret_cast<fabric_note const*>(t_->inbox->data + t_->shape.note(lane_, operation_));
    return n->operation == operation_ ? n : nullptr;
  }
  fabric_traffic::posted post(outgoing& o, std::size_t slot, fabric_endpoint::target const& to,
                              fabric_endpoint::message const& m) {
    return t_->level == 2 ? t_->endpoint->write(to, m, o.word, o.ticket)
                          : t_->endpoint->send(to.peer, m, fabric_word::tag(o.word, slot), o.ticket);
  }
  // Posts what was committed.
  void flush() {
    for (; unposted_ != sent_ && !t_->over(); ++unposted_, ++flying_) {
      auto const i = static_cast<std::size_t>(unposted_ % t_->shape.slots);
      outgoing& o = out_[i];
      std::size_t const skip = (o.word & fabric_word::called) != 0 ? 0 : fabric_shape::header;
      fabric_endpoint::message m;
      m.add(staging(i) + skip, fabric_shape::header - skip + o.bytes, t_->outbox->descriptor);
      if (post(o, i, t_->next.target(t_->shape.slot(lane_, i) + skip), m) == fabric_traffic::posted::yes) continue;
      t_->waiting = true;
      return;
    }
  }

  fabric_traffic* t_;
  fabric_receiver const* beside_;
  std::size_t lane_, index_ = 0;  // index_: sent_ mod slots
  std::uint64_t laps_;            // numbers on the wire begin again at a multiple of the slots
  std::uint64_t sent_ = 0, unposted_ = 0, acked_ = 0, flying_ = 0, operation_ = 0;
  std::uint64_t noted_[2] = {~std::uint64_t{0}, ~std::uint64_t{0}};  // the latest notes that came, by parity
  std::vector<outgoing> out_;
  call call_;
  bool called_ = false;
};

/// A link whose slices are remote writes: sent straight from the caller's memory, and landing in the neighbour's
/// output, where those are known to the provider.
class fabric_link {
 public:
  fabric_link(fabric_traffic& t, std::size_t lane) : t_(&t), prev_(t, lane), next_(t, lane, prev_) {}
  fabric_link(fabric_link const&) = delete;

  fabric_sender& next() { return next_; }
  fabric_receiver& prev() { return prev_; }
  bool broken() {
    if (t_->waiting) t_->progress();
    return t_->stopped();
  }
  /// For a rank that waits for something else meanwhile: takes what has arrived, and lets what was sent get on.
  void drive() { t_->progress(); }
  template <class T>
  void post(slice<T> output) {
    ++next_.operation_;
    prev_.post(reinterpret_cast<std::byte*>(output.data), output.count * sizeof(T));
  }

 private:
  friend class fabric_traffic;
  fabric_traffic* t_;
  fabric_receiver prev_;
  fabric_sender next_;
};

inline fabric_traffic::fabric_traffic(fabric_shape const& s, fabric_endpoint& e, std::atomic<bool> const& stopped)
    : shape(s),
      endpoint(&e),
      stopped_(&stopped),
      inbox_memory_(detail::fabric_allocate(s.bytes() + words() * fabric_shape::note_bytes)),
      outbox_memory_(detail::fabric_allocate(s.bytes())) {
  inbox = &e.enroll(inbox_memory_.get(), s.bytes() + words() * fabric_shape::note_bytes, true);
  outbox = &e.enroll(outbox_memory_.get(), s.bytes(), false);
}

inline fabric_traffic::~fabric_traffic() { endpoint->close(); }  // before its memory goes

inline void fabric_traffic::open() {
  for (std::size_t lane = 0; lane < shape.lanes; ++lane) links.push_back(std::make_unique<fabric_link>(*this, lane));
  if (endpoint->needs_fillers()) expect(fabric_ticket::use::filler, 2 * words());
}
inline void fabric_traffic::fall_back() {
  level = 1;
  expect(fabric_ticket::use::word, words());
  for (auto const& l : links) l->prev_.armed_ = 0;  // what was open at level 2 has no receive
}

inline void fabric_traffic::progress(std::chrono::milliseconds wait) {
  if (over()) return;
  endpoint->poll(*this, waiting ? std::chrono::milliseconds(0) : wait);
  if (!waiting || over()) return;
  waiting = false;
  for (fabric_ticket& t : receives_)
    if (!t.out) refill(t);
  for (auto const& l : links) l->prev_.flush(), l->next_.flush();
  if (flush_pairs != nullptr) flush_pairs(*this);
}
inline void fabric_traffic::ended(fabric_ticket& t) {
  if (t.what == fabric_ticket::use::send) --links[static_cast<std::size_t>(t.lane)]->next_.flying_;
}
inline void fabric_traffic::arrived(std::uint64_t word, fabric_ticket* t) {
  if (t != nullptr && t->what == fabric_ticket::use::pair) return;  // its link sees it
  auto const w = static_cast<std::uint32_t>(word);
  if (t != nullptr && t->what != fabric_ticket::use::slot) refill(*t);
  std::uint32_t const number = fabric_word::number(w);
  if (fabric_word::what(w) == fabric_word::kind::hello && number <= 2) {
    ++hellos[number];
    return;
  }
  if (fabric_word::what(w) == fabric_word::kind::hello || fabric_word::lane(w) >= links.size())
    return endpoint->fail({"something came that no rank sends", -1});
  fabric_link& l = *links[fabric_word::lane(w)];
  if (fabric_word::what(w) == fabric_word::kind::slice) l.prev_.came(w);
  if (fabric_word::what(w) == fabric_word::kind::credit) l.next_.acked_ += number;
  if (fabric_word::what(w) == fabric_word::kind::note) l.next_.noted_[number % 2] = number;
}

inline bool fabric_traffic::acknowledged() const {
  for (auto const& l : links)
    if (l->next_.sent_ != l->next_.acked_) return false;
  return true;
}
inline bool fabric_traffic::paid() const {
  for (auto const& l : links)
    if (!l->prev_.paid()) return false;
  return true;
}

}  // namespace ringlet
