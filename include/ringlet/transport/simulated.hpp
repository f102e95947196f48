// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <ratio>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringlet/call.hpp"
#include "ringlet/clock.hpp"
#include "ringlet/detail/simulated_parts.hpp"
#include "ringlet/error.hpp"
#include "ringlet/link.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/transport.hpp"
#include "ringlet/transport/simulated_settings.hpp"

namespace ringlet {

/// All ranks of a ring and what is between them, on a virtual clock, in one thread. The same settings give the same
/// times everywhere.
///
/// Each link has a clock of its own (each lane its own worker, like the blocks of a device). It moves when a slice is
/// waited for, when a credit is, and when a slice is worked on: it arrives alpha after the wire has let go of it, which
/// it does beta a byte after it could take it; it takes sender and receiver their overhead each, and what arrives
/// without being final gamma a byte. A link runs as far as its queues reach, whatever the time is elsewhere: each has
/// one writer and one reader, so that order of execution cannot change a time (Kahn, "The semantics of a simple
/// language for parallel programming", 1974). A wire that several links share takes their slices in the order of their
/// times; who asks first is served first. So do processors that ranks share: with them, no link runs ahead.
///
/// A lost slice costs its wire the bytes again and its receiver `resend_after`; those behind it wait for it, as a link
/// that keeps order makes them. Memory and work are linear in links.
///
/// Who waits for one thing longer than `timeout`, or for what can never come, ends the ring for all: `why()` names the
/// rank at fault. Nobody has got further by then; who has finished has.
class simulated {
 public:
  using settings = simulated_settings;
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
  link& lane(int rank, std::size_t lane = 0) const {
    return *links_[static_cast<std::size_t>(rank) * how_.lanes + lane];
  }
  /// A rank's link to any other one, or from it, for programs: like a lane, and it only polls. Each way has a wire to
  /// itself, like `wires[0]`.
  link& pair(int rank, int peer, bool to_send);
  /// Calls `f` with each link of a rank: its lanes, and its pairs that somebody has asked for.
  template <class F>
  void each_link(int rank, F f) const {
    for (std::size_t l = 0; l < how_.lanes; ++l) f(lane(rank, l));
    for (auto const& [peer, l] : pairs_[static_cast<std::size_t>(rank)]) f(*l);
  }

  /// How far a rank has come: the time when the last of its links was done with something.
  virtual_time clock(int rank) const;

  /// Runs one operation a lane, until all are at their ends. May be called again: clocks go on where they stand.
  /// @param poll `poll(rank, lane)` polls the operation of that link: `status`. Or `poll(rank)` goes on with all that a
  /// rank does; after a fault it is called until it is not `pending`, for dead ranks, too
  template <class Poll>
  void run(Poll poll);
  /// A rank gives up, and ends the ring for all.
  void fail(fault const& f, virtual_time when);

  /// Why the last run did not come to a good end; null if it did.
  fault const* why() const { return why_ ? &*why_ : nullptr; }
  /// Events that were taken so far.
  std::uint64_t events() const { return events_; }

 private:
  using agenda = detail::simulated_agenda<link>;
  void find_fault(virtual_time since);

  settings how_;
  std::deque<detail::wire_at_work> wires_;    // they stay where they are
  std::vector<std::unique_ptr<link>> links_;  // lanes, and behind them pairs
  std::vector<std::map<int, link*>> pairs_;   // by rank, of each by 2 * peer, and 1 more to send
  virtual_time timeout_, now_{};              // now_: of the event at hand
  agenda agenda_;
  detail::shared_processors processors_;
  std::uint64_t events_ = 0;
  std::optional<fault> why_;
  virtual_time failed_at_{};
};

/// Both ends that a rank has on one lane, and its clock.
class simulated::link {
 public:
  using sender = detail::simulated_sender<link>;
  using receiver = detail::simulated_receiver<link>;

  link(simulated& world, int rank, std::size_t lane, detail::wire_at_work& w, simulated_rank const& is)
      : world_(&world),
        rank_(rank),
        lane_(lane),
        wire_(&w),
        gamma_(is.gamma * 1e12),
        overhead_(virtual_seconds(is.overhead)),
        dies_at_(is.dies_at <= 9e6 ? virtual_seconds(is.dies_at) : virtual_time::max()),
        clock_(virtual_seconds(is.starts_at)),
        slots_(world.how_.slots),
        memory_(world.how_.slots * world.how_.slot_bytes),
        next_(*this),
        prev_(*this) {}
  link(link const&) = delete;

  sender& next() { return next_; }
  receiver& prev() { return prev_; }
  bool broken() const { return world_->why_.has_value(); }

  /// For ranks with more to do than one operation: asking does not wait any more. When what was asked for comes is
  /// `due()`, once that is known; the rank is polled then after `wake_when_due`, and has it after `arrive`.
  void only_poll() { polls_ = true; }
  virtual_time due() const { return due_; }
  void wake_when_due() { wake(due_); }
  void arrive() {
    if (world_->why_ && !dead_) clock_ = std::max(clock_, world_->failed_at_);
    if (virtual_time const due = std::exchange(due_, virtual_time::max()); due <= world_->now_ && !dead_ && !late_)
      pass(std::max(due, clock_), waits_);
  }
  /// The rank was at something else until then. Of that a tenth of `timeout` at most counts as waiting.
  void not_before(virtual_time at) {
    at = std::max(clock_, at);
    since_ += std::max(at - clock_ - world_->timeout_ / 10, virtual_time::zero());
    clock_ = at;
    dead_ = dead_ || clock_ >= dies_at_;
    late_ = late_ || (asks_ && clock_ - since_ > world_->timeout_);
  }
  /// The rank is at something else until then, and is polled again.
  void busy_until(virtual_time at) {
    not_before(at);
    wake(clock_);
  }

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
  friend sender;
  friend receiver;
  enum class waits : std::uint8_t { not_at_all, for_slice, for_credit };
  struct slot {
    virtual_time arrives{};   // at the receiver; of a shared wire, until it is known, for how long the wire is needed
    virtual_time credited{};  // when the sender knows that it is free again
  };

  template <class T>
  slice<T> try_acquire(placement where) {
    bytes_ = where.count * sizeof(T);
    if (sent_ - taken_ == slots_.size()) return wait(waits::for_credit), slice<T>{};
    virtual_time const free = sent_ < slots_.size() ? clock_ : slots_[tail_].credited;
    if (!reach(free, waits::for_credit, work_ + overhead_)) return {};
    return place<T>(tail_, where);
  }
  void commit() {
    work(work_ + overhead_);
    slots_[tail_].arrives = virtual_picoseconds(static_cast<double>(bytes_) * wire_->beta);
    if (announces_ && calls_.empty()) calls_.resize(slots_.size());
    if (!calls_.empty()) calls_[tail_] = std::exchange(announces_, std::nullopt).value_or(call{});
    if (++tail_ == slots_.size()) tail_ = 0;
    ++sent_;
    bytes_sent_ += bytes_;
    if (wire_->users > 1)
      world_->agenda_.plan(clock_, *this, agenda::doing::depart);
    else
      depart(clock_);
  }
  template <class T>
  slice<T> try_peek(placement where) {
    link& from = *left_;
    if (from.departed_ == from.taken_) return wait(waits::for_slice), slice<T>{};
    // What is final needs no more work.
    double const added = where.final ? 0 : static_cast<double>(where.count * sizeof(T)) * gamma_;
    work_ = overhead_ + virtual_picoseconds(added);
    if (!reach(from.slots_[from.head_].arrives, waits::for_slice, work_)) return {};
    return from.place<T>(from.head_, where);
  }
  call const& announced() const {
    static constexpr call nothing{};
    return left_->calls_.empty() ? nothing : left_->calls_[left_->head_];
  }
  void release() {
    work(work_);
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
    wire_->free = std::max(wire_->free, when - wire_->saves) + needs;
    s.arrives = std::max(wire_->free, when) + wire_->alpha;
    if (wire_->is.loss > 0)
      for (; wire_->chance() < wire_->is.loss; ++lost_) wire_->free += needs, s.arrives += wire_->resend_after + needs;
    if (wire_->is.jitter > 0) s.arrives += virtual_seconds(wire_->chance() * wire_->is.jitter);
    s.arrives = last_arrival_ = std::max(s.arrives, last_arrival_);
    if (++departing_ == slots_.size()) departing_ = 0;
    ++departed_;
    if (right_->waits_ == waits::for_slice) right_->wake(s.arrives);
  }

  // Moves the clock to a time that is known, unless that is not to be.
  bool reach(virtual_time at, waits what, virtual_time work) {
    at = std::max(at, clock_);
    if (!world_->processors_.none() && at > world_->now_) return wait(what), wake(at), false;
    if (world_->processors_.begins(at) + work >= dies_at_) return dead_ = true, wait(what), false;
    if (polls_ && at > clock_) return due_ = at, wait(what), false;
    return pass(at, what);
  }
  bool pass(virtual_time at, waits what) {
    if (at - clock_ > world_->timeout_) return late_ = true, wait(what), false;
    waited_ += at - clock_;
    clock_ = at;
    asks_ = false, due_ = virtual_time::max();
    return true;
  }
  void wait(waits what) {
    waits_ = what;
    if (!std::exchange(asks_, true)) since_ = clock_;
  }
  void wake(virtual_time at) {
    at = std::max(at, clock_);
    if (planned_ <= at || dead_ || late_) return;
    planned_ = at;
    world_->agenda_.plan(at, *this, agenda::doing::poll);
  }
  // The slice at hand is being worked on.
  void work(virtual_time takes) {
    if (takes != virtual_time::zero()) clock_ = world_->processors_.ends(clock_, takes);
    work_ = {};
  }
  template <class T>
  slice<T> place(std::size_t at, placement where) {
    // Without memory any address does that nobody looks at.
    return {memory_.empty() ? reinterpret_cast<T*>(this) : reinterpret_cast<T*>(&memory_[at * world_->how_.slot_bytes]),
            where.count};
  }

  simulated* world_;
  int rank_;
  std::size_t lane_;  // not below the number of lanes: a pair
  detail::wire_at_work* wire_;
  link *right_ = nullptr, *left_ = nullptr;
  double gamma_;  // picoseconds
  virtual_time overhead_, dies_at_, clock_, work_{}, waited_{}, last_arrival_{};
  waits waits_ = waits::not_at_all;
  virtual_time planned_ = virtual_time::max();  // when it is polled next
  bool dead_ = false, late_ = false, polls_ = false, asks_ = false;
  virtual_time since_{};                    // when it first asked in vain for what it still has not got
  virtual_time due_ = virtual_time::max();  // when what was asked for in vain comes, if that is known
  status state_ = status::pending;
  // The queue to the next rank. Numbers of slices, and where in the queue the next of each kind stands.
  std::vector<slot> slots_;
  std::vector<std::byte> memory_;
  std::vector<call> calls_;  // what came with each slice, once anything has
  std::optional<call> announces_;
  std::uint64_t sent_ = 0, departed_ = 0, taken_ = 0;
  std::size_t tail_ = 0, departing_ = 0, head_ = 0, bytes_ = 0;
  std::uint64_t bytes_sent_ = 0, lost_ = 0;
  sender next_;
  receiver prev_;
};

inline simulated::simulated(settings s)
    : how_((s.check(), std::move(s))), timeout_(virtual_seconds(how_.timeout)), processors_(how_.processors) {
  std::size_t const n = static_cast<std::size_t>(how_.ranks), links = n * how_.lanes;
  pairs_.resize(n);
  std::size_t const wires = how_.over.empty() ? links : how_.wires.size();
  for (std::size_t w = 0; w < wires; ++w)
    wires_.emplace_back(how_.wires[how_.over.empty() ? 0 : w], how_.seed * 0x2545f4914f6cdd1d + w);
  for (std::size_t i = 0; i < links; ++i) {
    std::size_t const w = how_.over.empty() ? i : how_.over[i];
    ++wires_[w].users;
    int const rank = static_cast<int>(i / how_.lanes);
    links_.push_back(std::make_unique<link>(*this, rank, i % how_.lanes, wires_[w], how_.member(rank)));
  }
  for (std::size_t i = 0; i < links; ++i)
    links_[i]->right_ = links_[(i + how_.lanes) % links].get(), links_[i]->right_->left_ = links_[i].get();
}

inline virtual_time simulated::clock(int rank) const {
  virtual_time at{};
  each_link(rank, [&](link const& l) { at = std::max(at, l.clock_); });
  return at;
}

inline simulated::link& simulated::pair(int rank, int peer, bool to_send) {
  auto const place = [&](int of, int other, bool sends) -> link*& {
    return pairs_[static_cast<std::size_t>(of)][2 * other + sends];
  };
  if (link* const made = place(rank, peer, to_send)) return *made;
  auto const add = [&](int from, int to, bool sends) {
    wires_.emplace_back(how_.wires[0], how_.seed * 0x2545f4914f6cdd1d + wires_.size());
    wires_.back().users = 1;
    links_.push_back(std::make_unique<link>(*this, from, how_.lanes, wires_.back(), how_.member(from)));
    links_.back()->only_poll();
    links_.back()->state_ = lane(from).state_;
    return place(from, to, sends) = links_.back().get();
  };
  link *const here = add(rank, peer, to_send), *const there = add(peer, rank, !to_send);
  here->right_ = here->left_ = there;
  there->right_ = there->left_ = here;
  return *here;
}

template <class Poll>
void simulated::run(Poll poll) {
  constexpr bool by_rank = std::is_invocable_v<Poll&, int>;
  auto const visit = [&](link& l) {
    l.waits_ = link::waits::not_at_all;
    if constexpr (by_rank) {
      status const how = poll(l.rank_);
      each_link(l.rank_, [&](link& mine) { mine.state_ = how; });
    } else {
      l.state_ = poll(l.rank_, l.lane_);
    }
  };
  for (auto& l : links_) {
    bool const runs = by_rank || l->lane_ < how_.lanes;
    l->state_ = runs ? status::pending : status::ready;
    if (runs) l->wake(l->clock_);
  }
  for (; !agenda_.empty(); ++events_) {
    auto const e = agenda_.take();
    now_ = e.at;
    if (e.what == agenda::doing::depart)
      e.whose->depart(e.at);
    else if (e.whose->planned_ = virtual_time::max(); e.whose->state_ == status::pending)
      visit(*e.whose);
    if (by_rank && events_ % links_.size() == 0) find_fault(e.at - timeout_);  // seldom: it looks at all
  }
  find_fault(virtual_time::max());
  bool const failed = why_.has_value();
  if constexpr (by_rank)
    for (auto& l : links_)  // who has died while nobody waits for it must come to an end all the same
      if (l->state_ == status::pending && !why_) why_ = fault(errc::peer_lost, l->rank_, "rank %d has died", l->rank_);
  for (bool again = why_.has_value(); again;) {
    again = false;
    for (std::size_t i = 0; i < links_.size(); ++i) {  // they may become more
      link& l = *links_[i];
      if (l.state_ == status::pending && (by_rank || !l.dead_)) visit(l), again |= l.state_ == status::pending;
      if (l.clock_ > failed_at_ && !by_rank) l.state_ = status::failed;  // it had run ahead
      if (l.state_ == status::failed && !by_rank) l.clock_ = failed_at_;
    }
  }
  if (!failed) why_.reset();
}

inline void simulated::fail(fault const& f, virtual_time when) {
  if (why_) return;
  why_ = f, failed_at_ = when;
  for (auto& l : links_) l->wake(when);
}

// Nothing will come any more for who has waited since then, or longer. Whoever has waited longest has given up first;
// what it waited for may itself have waited.
inline void simulated::find_fault(virtual_time since) {
  // Where a rank has died, or what else it waits for.
  auto const elsewhere = [&](link const* at) {
    each_link(at->rank_, [&](link const& l) {
      if (!at->dead_ && (l.dead_ || (l.asks_ && !at->asks_))) at = &l;
    });
    return at;
  };
  link const* first = nullptr;
  for (auto const& l : links_)
    if (l->state_ == status::pending && l->asks_ && l->since_ < since && !elsewhere(l.get())->dead_ &&
        (l->clock_ <= now_ || agenda_.empty()) && (first == nullptr || l->since_ < first->since_))
      first = l.get();
  if (first == nullptr) return;
  link const* at = first;
  std::size_t hops = 0;
  for (bool late = false; !late && !at->dead_ && at->state_ == status::pending && hops <= links_.size(); ++hops) {
    late = at->late_;
    at = elsewhere(at->waits_ == link::waits::for_slice ? at->left_ : at->right_);
  }
  fail(hops > links_.size()
           ? fault(errc::timed_out, -1, "rank %d waited %g s of virtual time, and all wait for each other",
                   first->rank_, how_.timeout)
       : at->dead_
           ? fault(errc::peer_lost, at->rank_, "rank %d has died, and rank %d waited %g s of virtual time for it",
                   at->rank_, first->rank_, how_.timeout)
           : fault(errc::timed_out, at->rank_, "rank %d waited %g s of virtual time for rank %d", first->rank_,
                   how_.timeout, at->rank_),
       first->since_ + timeout_);
}

}  // namespace ringlet
