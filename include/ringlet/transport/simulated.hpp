// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <queue>
#include <ratio>
#include <string>
#include <vector>

#include "ringlet/error.hpp"
#include "ringlet/link.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/transport.hpp"

namespace ringlet {

/// Time on a virtual clock, in whole picoseconds: sums are exact, and 106 days fit.
using virtual_time = std::chrono::duration<std::int64_t, std::pico>;

/// Seconds as virtual time, rounded to the nearest picosecond.
constexpr virtual_time virtual_seconds(double seconds) {
  return virtual_time(static_cast<std::int64_t>(seconds * 1e12 + (seconds < 0 ? -0.5 : 0.5)));
}
/// Virtual time as seconds.
constexpr double in_seconds(virtual_time t) { return static_cast<double>(t.count()) / 1e12; }

/// What carries slices one way. Slices leave one after the other, in the order in which they were committed.
struct simulated_wire {
  double alpha = 0;         ///< seconds until a slice of no bytes has arrived; its credit takes as long to come back
  double beta = 0;          ///< seconds for which a byte occupies the wire
  double loss = 0;          ///< how often a slice is lost, from 0 to below 1
  double resend_after = 0;  ///< seconds after which a lost slice leaves again
  double jitter = 0;        ///< each slice is late by up to so many seconds, all delays equally likely
};

/// What a rank is like.
struct simulated_rank {
  double gamma = 0;      ///< seconds it takes to add up a byte that arrives
  double overhead = 0;   ///< seconds each slice takes it besides (the o of LogP: Culler et al., 1993)
  double starts_at = 0;  ///< when it comes to its first operation
  /// When it dies: a slice that is not done by then is never begun.
  double dies_at = std::numeric_limits<double>::infinity();
};

/// All ranks of a ring and what is between them, on a virtual clock, in one thread. The same settings give the same times
/// everywhere.
///
/// Each link has a clock of its own (each lane its own worker, like the blocks of a device). It moves when a slice is
/// waited for, when a credit is, and when something is added up: a slice arrives alpha after the wire has let go of it,
/// which it does beta a byte after it could take it; what arrives without being final costs gamma a byte. A link runs as
/// far as its queues reach, whatever the time is elsewhere: each has one writer and one reader, so that order of execution
/// cannot change a time (Kahn, "The semantics of a simple language for parallel programming", 1974). A wire that several
/// links share takes their slices in the order of their times; who asks first is served first.
///
/// A lost slice costs its wire the bytes again and its receiver `resend_after`; those behind it wait for it, as a link that
/// keeps order makes them. Memory and work are linear in links.
///
/// Who waits for one thing longer than `timeout`, or for what can never come, ends the ring for all: `why()` names the rank
/// at fault. Nobody has got further by then; who has finished has.
class simulated {
 public:
  /// What the ring is like.
  struct settings {
    int ranks = 2;          ///< at least 1
    std::size_t lanes = 1;  ///< links from each rank to the next
    std::size_t slots = 8;  ///< slices that a queue holds, at least 2
    /// Bytes of a slice in memory. 0: there is no memory, slices are only counted, and nobody may touch them.
    std::size_t slot_bytes = 0;
    std::vector<simulated_wire> wires{simulated_wire{}};  ///< at least one
    /// Which wire the link of rank r and lane l takes: `over[r * lanes + l]`. Several may take the same one. Empty: each
    /// link has one to itself, like `wires[0]`.
    std::vector<std::size_t> over{};
    std::vector<simulated_rank> members{simulated_rank{}};  ///< one for each rank, or one that all are like
    double timeout = 60;                                    ///< seconds of waiting after which a rank gives up
    std::uint64_t seed = 1;                                 ///< of what is lost and late

    /// @throws error(errc::invalid_argument) with what was given and what was expected
    void check() const;
  };
  class link;

  /// @throws error(errc::invalid_argument) as `settings::check`
  explicit simulated(settings s);
  simulated(simulated const&) = delete;

  /// How many ranks there are.
  int size() const { return how_.ranks; }
  /// How many links each rank has to the next.
  std::size_t lanes() const { return how_.lanes; }
  /// What was asked for.
  settings const& how() const { return how_; }
  /// A rank's link: what its operations run over.
  link& lane(int rank, std::size_t lane = 0) { return *links_[static_cast<std::size_t>(rank) * how_.lanes + lane]; }

  /// Runs one operation a link, until all are at their ends. May be called again: clocks go on where they stand.
  /// @param poll `poll(rank, lane)` polls the operation of that link: `status`
  template <class Poll>
  void run(Poll poll);

  /// Why the last run did not come to a good end; null if it did.
  fault const* why() const { return why_ ? &*why_ : nullptr; }
  /// Events that were taken so far.
  std::uint64_t events() const { return events_; }

 private:
  enum class doing : std::uint8_t { poll, depart };
  struct event {
    virtual_time at;
    std::uint64_t order;  // of those at one time, the one that was planned first
    link* whose;
    doing what;
    friend bool operator>(event const& a, event const& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; }
  };
  // A wire at work, and its own source of chance (splitmix64: Steele, Lea and Flood, 2014).
  struct wire {
    simulated_wire is;
    double beta;  // picoseconds
    virtual_time alpha, resend_after, free{};
    int users = 0;
    std::uint64_t state = 0;
    double chance() {
      std::uint64_t z = state += 0x9e3779b97f4a7c15;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
    }
  };

  static virtual_time whole(double picoseconds) { return virtual_time(static_cast<std::int64_t>(picoseconds + 0.5)); }
  void plan(virtual_time at, link& whose, doing what) { agenda_.push({at, planned_++, &whose, what}); }
  void find_fault();

  settings how_;
  std::vector<wire> wires_;
  std::vector<std::unique_ptr<link>> links_;
  virtual_time timeout_{};
  std::priority_queue<event, std::vector<event>, std::greater<>> agenda_;
  std::uint64_t planned_ = 0, events_ = 0;
  std::optional<fault> why_;
  virtual_time failed_at_{};
};

/// Both ends that a rank has on one lane, and its clock.
class simulated::link {
 public:
  /// As `outbound` says.
  class sender {
   public:
    template <class T>
    slice<T> try_acquire(placement where) {
      return self_->try_acquire<T>(where);
    }
    void commit() { self_->commit(); }
    bool drained() const { return true; }

   private:
    friend link;
    explicit sender(link& l) : self_(&l) {}
    link* self_;
  };
  /// As `inbound` says.
  class receiver {
   public:
    template <class T>
    slice<T> try_peek(placement where) {
      return self_->try_peek<T>(where);
    }
    void release() { self_->release(); }

   private:
    friend link;
    explicit receiver(link& l) : self_(&l) {}
    link* self_;
  };

  link(simulated& world, std::size_t number, wire& w, simulated_rank const& is)
      : world_(&world),
        number_(number),
        wire_(&w),
        gamma_(is.gamma * 1e12),
        overhead_(virtual_seconds(is.overhead)),
        dies_at_(is.dies_at < 9e6 ? virtual_seconds(is.dies_at) : virtual_time::max()),
        clock_(virtual_seconds(is.starts_at)),
        slots_(world.how_.slots),
        memory_(world.how_.slots * world.how_.slot_bytes),
        next_(*this),
        prev_(*this) {}
  link(link const&) = delete;

  sender& next() { return next_; }
  receiver& prev() { return prev_; }
  bool broken() const { return world_->why_.has_value(); }

  /// How far this end of the world has come.
  virtual_time clock() const { return clock_; }
  /// How the last run ended here. `pending`: the rank has died.
  status state() const { return state_; }
  /// How long it has waited in all.
  virtual_time waited() const { return waited_; }
  /// Slices and bytes that it has sent; how many times one was lost.
  std::uint64_t slices() const { return sent_; }
  std::uint64_t bytes() const { return bytes_sent_; }
  std::uint64_t lost() const { return lost_; }

 private:
  friend simulated;
  enum class waits : std::uint8_t { not_at_all, for_slice, for_credit };
  struct slot {
    virtual_time arrives{};   // at the receiver; of a shared wire, until it is known, for how long the wire is needed
    virtual_time credited{};  // when the sender knows that it is free again
  };

  template <class T>
  slice<T> try_acquire(placement where) {
    bytes_ = where.count * sizeof(T);
    if (sent_ - taken_ == slots_.size()) return wait(waits::for_credit), slice<T>{};
    if (work_ == virtual_time::zero()) work_ = overhead_;
    if (!reach(sent_ < slots_.size() ? clock_ : slots_[tail_].credited, waits::for_credit)) return {};
    return place<T>(tail_, where);
  }
  void commit() {
    work();
    slots_[tail_].arrives = whole(static_cast<double>(bytes_) * wire_->beta);
    if (++tail_ == slots_.size()) tail_ = 0;
    ++sent_;
    bytes_sent_ += bytes_;
    if (wire_->users > 1)
      world_->plan(clock_, *this, doing::depart);
    else
      depart(clock_);
  }
  template <class T>
  slice<T> try_peek(placement where) {
    link& from = *left_;
    if (from.departed_ == from.taken_) return wait(waits::for_slice), slice<T>{};
    // What is final needs no more work.
    double const added = where.final ? 0 : static_cast<double>(where.count * sizeof(T)) * gamma_;
    work_ = overhead_ + whole(added);
    if (!reach(from.slots_[from.head_].arrives, waits::for_slice)) return {};
    return from.place<T>(from.head_, where);
  }
  void release() {
    work();
    link& from = *left_;
    from.slots_[from.head_].credited = clock_ + from.wire_->alpha;
    if (from.waits_ == waits::for_credit) from.wake(from.slots_[from.head_].credited);
    if (++from.head_ == from.slots_.size()) from.head_ = 0;
    ++from.taken_;
  }

  // The wire takes the next slice that was committed.
  void depart(virtual_time when) {
    slot& s = slots_[departing_];
    virtual_time const needs = s.arrives;
    wire_->free = std::max(wire_->free, when) + needs;
    s.arrives = wire_->free + wire_->alpha;
    if (wire_->is.loss > 0)
      for (; wire_->chance() < wire_->is.loss; ++lost_) wire_->free += needs, s.arrives += wire_->resend_after + needs;
    if (wire_->is.jitter > 0) s.arrives += virtual_seconds(wire_->chance() * wire_->is.jitter);
    s.arrives = last_arrival_ = std::max(s.arrives, last_arrival_);
    if (++departing_ == slots_.size()) departing_ = 0;
    ++departed_;
    if (right_->waits_ == waits::for_slice) right_->wake(s.arrives);
  }

  // Moves the clock to a time that is known, unless that is not to be.
  bool reach(virtual_time at, waits what) {
    at = std::max(at, clock_);
    if (at + work_ >= dies_at_) return dead_ = true, wait(what), false;
    if (at - clock_ > world_->timeout_) return late_ = true, wait(what), false;
    waited_ += at - clock_;
    clock_ = at;
    return true;
  }
  void wait(waits what) { waits_ = what; }
  void wake(virtual_time at) {
    if (planned_ || dead_ || late_) return;
    planned_ = true;
    world_->plan(std::max(at, clock_), *this, doing::poll);
  }
  // The slice at hand is being worked on.
  void work() {
    clock_ += work_;
    work_ = {};
  }
  template <class T>
  slice<T> place(std::size_t at, placement where) {
    // Without memory any address does that nobody looks at.
    return {memory_.empty() ? reinterpret_cast<T*>(this) : reinterpret_cast<T*>(&memory_[at * world_->how_.slot_bytes]),
            where.count};
  }

  simulated* world_;
  std::size_t number_;  // rank * lanes + lane
  wire* wire_;
  link *right_ = nullptr, *left_ = nullptr;
  double gamma_;  // picoseconds
  virtual_time overhead_, dies_at_, clock_, work_{}, waited_{}, last_arrival_{};
  waits waits_ = waits::not_at_all;
  bool planned_ = false, dead_ = false, late_ = false;
  status state_ = status::pending;
  // The queue to the next rank. Numbers of slices, and where in the queue the next of each kind stands.
  std::vector<slot> slots_;
  std::vector<std::byte> memory_;
  std::uint64_t sent_ = 0, departed_ = 0, taken_ = 0;
  std::size_t tail_ = 0, departing_ = 0, head_ = 0, bytes_ = 0;
  std::uint64_t bytes_sent_ = 0, lost_ = 0;
  sender next_;
  receiver prev_;
};

inline void simulated::settings::check() const {
  auto const refuse = [](std::string const& words) { throw error(errc::invalid_argument, "simulated: " + words); };
  if (ranks < 1) refuse("ranks is " + std::to_string(ranks) + ": give at least 1");
  if (lanes < 1) refuse("lanes is 0: give at least 1");
  if (slots < 2) refuse("slots is " + std::to_string(slots) + ": give at least 2, or the ring locks");
  if (wires.empty()) refuse("there is no wire: give one that all are like, or all of them");
  std::size_t const links = static_cast<std::size_t>(ranks) * lanes;
  if (!over.empty() && over.size() != links)
    refuse("over names wires for " + std::to_string(over.size()) + " links, but there are " + std::to_string(links));
  for (std::size_t w : over)
    if (w >= wires.size())
      refuse("over names wire " + std::to_string(w) + ", but there are " + std::to_string(wires.size()));
  if (members.size() != 1 && members.size() != static_cast<std::size_t>(ranks))
    refuse("members describes " + std::to_string(members.size()) + " ranks: give one for all " + std::to_string(ranks) +
           ", or all of them");
  // Written so that no number which is none passes.
  for (simulated_wire const& w : wires) {
    if (!(w.alpha >= 0 && w.beta >= 0 && w.resend_after >= 0 && w.jitter >= 0)) refuse("a wire has a negative time");
    if (!(w.loss >= 0 && w.loss < 1)) refuse("a wire loses " + std::to_string(w.loss) + ": give 0 to below 1");
  }
  for (simulated_rank const& r : members)
    if (!(r.gamma >= 0 && r.overhead >= 0 && r.starts_at >= 0 && r.dies_at >= 0)) refuse("a rank has a negative time");
  if (!(timeout > 0)) refuse("the timeout is not positive");
}

inline simulated::simulated(settings s) : how_((s.check(), std::move(s))), timeout_(virtual_seconds(how_.timeout)) {
  std::size_t const n = static_cast<std::size_t>(how_.ranks), links = n * how_.lanes;
  std::size_t const wires = how_.over.empty() ? links : how_.wires.size();
  for (std::size_t w = 0; w < wires; ++w) {
    simulated_wire const& is = how_.wires[how_.over.empty() ? 0 : w];
    wires_.push_back({is, is.beta * 1e12, virtual_seconds(is.alpha), virtual_seconds(is.resend_after)});
    wires_.back().state = how_.seed * 0x2545f4914f6cdd1d + w;
  }
  for (std::size_t i = 0; i < links; ++i) {
    std::size_t const w = how_.over.empty() ? i : how_.over[i];
    ++wires_[w].users;
    auto const& is = how_.members[how_.members.size() == 1 ? 0 : i / how_.lanes];
    links_.push_back(std::make_unique<link>(*this, i, wires_[w], is));
  }
  for (std::size_t i = 0; i < links; ++i) {
    links_[i]->right_ = links_[(i + how_.lanes) % links].get();
    links_[i]->right_->left_ = links_[i].get();
  }
}

template <class Poll>
void simulated::run(Poll poll) {
  auto const visit = [&](link& l) {
    l.waits_ = link::waits::not_at_all;
    l.state_ = poll(static_cast<int>(l.number_ / how_.lanes), l.number_ % how_.lanes);
  };
  for (auto& l : links_) {
    l->state_ = status::pending;
    l->wake(l->clock_);
  }
  for (; !agenda_.empty(); ++events_) {
    event const e = agenda_.top();
    agenda_.pop();
    if (e.what == doing::depart)
      e.whose->depart(e.at);
    else if (e.whose->planned_ = false; e.whose->state_ == status::pending)
      visit(*e.whose);
  }
  find_fault();
  if (!why_) return;
  for (auto& l : links_) {
    if (l->state_ == status::pending && !l->dead_) visit(*l);
    if (l->clock_ > failed_at_) l->state_ = status::failed;  // it had run ahead
    if (l->state_ == status::failed) l->clock_ = failed_at_;
  }
}

// Nothing happens any more. Whoever has waited longest has given up first; what it waited for may itself have waited.
inline void simulated::find_fault() {
  link const* first = nullptr;
  for (auto const& l : links_)
    if (l->state_ == status::pending && !l->dead_ && (first == nullptr || l->clock_ < first->clock_)) first = l.get();
  if (first == nullptr || why_) return;
  failed_at_ = first->clock_ + timeout_;
  auto const rank = [&](link const* l) { return static_cast<int>(l->number_ / how_.lanes); };
  link const* at = first;
  for (std::size_t hops = 0; hops < links_.size() && !at->dead_ && at->state_ == status::pending; ++hops) {
    bool const late = at->late_;
    at = at->waits_ == link::waits::for_slice ? at->left_ : at->right_;
    if (late) break;
    if (at == first) at = nullptr;
    if (at == nullptr) break;
  }
  if (at == nullptr)
    why_ = fault(errc::timed_out, -1, "rank %d waited %g s of virtual time, and all wait for each other", rank(first),
                 how_.timeout);
  else if (at->dead_)
    why_ = fault(errc::peer_lost, rank(at), "rank %d has died, and rank %d waited %g s of virtual time for it",
                 rank(at), rank(first), how_.timeout);
  else
    why_ = fault(errc::timed_out, rank(at), "rank %d waited %g s of virtual time for rank %d", rank(first),
                 how_.timeout, rank(at));
}

}  // namespace ringlet
