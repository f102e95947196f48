// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <sched.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringlet/bootstrap/roster.hpp"
#include "ringlet/call.hpp"
#include "ringlet/clock.hpp"
#include "ringlet/counters.hpp"
#include "ringlet/detail/started.hpp"
#include "ringlet/element.hpp"
#include "ringlet/error.hpp"
#include "ringlet/schedule.hpp"
#include "ringlet/selection.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/store.hpp"
#include "ringlet/transport.hpp"

namespace ringlet {
namespace detail {
inline void check_patience(char const* what, std::chrono::milliseconds given) {
  if (given.count() < 0)
    throw error(errc::invalid_argument,
                words("connect_options::%s is %lld ms, expected 0 or more: a wait ends after it", what,
                      static_cast<long long>(given.count())));
}
}  // namespace detail

/// What a communicator is told when it connects.
/// @tparam X the transport, whose settings come with it
template <transport X>
struct connect_options {
  /// The transport's own settings; what of them must be alike is compared between ranks.
  typename X::settings transport{};
  /// Which sizes take which route, among ranks that share memory; the same on all ranks.
  selection select{};
  /// How long to wait for all ranks to come and connect.
  std::chrono::milliseconds connect_timeout{60'000};
  /// How long an operation may keep a rank waiting without getting on. Of a time in which the caller does not poll, a
  /// tenth of a second counts at most. A rank that has ended is noticed much sooner.
  std::chrono::milliseconds timeout{60'000};

  /// @throws error(errc::invalid_argument) naming the time that is negative
  void check() const {
    detail::check_patience("connect_timeout", connect_timeout);
    detail::check_patience("timeout", timeout);
  }
};

template <class T, class X>
class allocation;  // see allocate.hpp
namespace detail {
template <class X>
class session;
[[noreturn, gnu::cold]] inline void raise_moved_from() {
  throw error(errc::not_connected, "this communicator was moved from; use the one it was moved to");
}
}  // namespace detail

/// Ranks that are connected in a ring, and the order of what they do together.
///
/// Operations run in the order in which they were started, and every rank starts the same ones in the same order. One
/// thread at a time uses a communicator; `abort` alone may come from another. After a failure it is finished: every
/// operation, also those that are waiting, ends with an error, on all ranks, and there is nothing to repair. It can be
/// moved, also while operations run; it must outlive them, or they end as if aborted. An operation gets on when its own
/// communicator is polled or waited for: who uses several waits for their operations in the same order on all ranks.
/// A process forked from a rank is no rank: it must not use what it inherits, and may only let it go.
/// @tparam X the transport
/// @tparam Size the number of ranks when it is known while compiling, like the extent of a `std::span`; else
///   `dynamic_size`
template <transport X, int Size = dynamic_size>
class communicator {
 public:
  /// Connects the ranks of a meeting. Most users call `connect`.
  template <meeting M>
  communicator(M& m, connect_options<X> const& options) : session_(new detail::session<X>(m, options)) {}
  communicator(communicator&& other) noexcept : session_(std::exchange(other.session_, nullptr)) {}
  communicator& operator=(communicator&& other) noexcept {
    delete std::exchange(session_, std::exchange(other.session_, nullptr));
    return *this;
  }
  ~communicator() { delete session_; }

  /// This rank, 0 <= rank() < size().
  int rank() const { return session().rank; }
  /// How many ranks there are.
  int size() const {
    if constexpr (Size != dynamic_size)
      return Size;
    else
      return session().size;
  }
  /// How a buffer of `count` elements is cut: chunk r is rank r's in reduce_scatter and all_gather.
  partition chunks(std::size_t count) const { return {count, static_cast<std::size_t>(size())}; }

  /// Memory that the transport can use without copies; a collective, with the same count on all ranks.
  /// @tparam T the element
  /// @return a contiguous range of zeroed bytes as elements, which gives the memory back when it goes, before the
  ///   communicator
  /// @throws error(errc::out_of_memory) with the bytes needed and available
  /// @throws error(errc::mismatch) when ranks give different counts or elements
  template <element T>
  allocation<T, X> allocate(std::size_t count);

  /// Makes smaller communicators; a collective.
  /// @param color ranks of one color make one communicator; a negative color makes none
  /// @param key decides the order of ranks in it; equal keys keep their order
  /// @return the one of this rank's color, or none where that is negative. Its ranks are numbered anew, also in errors
  /// @throws error as `connect`
  std::optional<communicator<X>> split(int color, int key = 0);

  /// Ends everything that runs or waits here or at other ranks, with `errc::aborted`. Any thread.
  void abort(std::string_view why = "abort() was called") {
    auto& s = session();
    s.wires.tell(fault(errc::aborted, s.rank, "rank %d: %.*s", s.rank, static_cast<int>(why.size()), why.data()));
  }

  /// What this rank has moved so far. Always on: it costs a few additions a slice. To measure some operations,
  /// subtract.
  ringlet::counters counters() const { return session().book.sum(size()); }

  /// The transport, for those who need more of it than the contract says.
  X& transport() { return session().wires; }

  /// What operations hold on to. Not for users.
  /// @throws error(errc::not_connected) when the communicator was moved from
  detail::session<X>& session() const {
    if (session_ == nullptr) detail::raise_moved_from();
    return *session_;
  }

 private:
  detail::session<X>* session_;  // not a std::unique_ptr: <memory> is a tenth of what users compile
};

namespace detail {

// A communicator, at an address that stays. Knows nothing of elements.
template <class X>
class session {
 public:
  template <meeting M>
  session(M& m, connect_options<X> const& given)
      : options((given.check(), given)),
        rank(m.rank()),
        size(m.size()),
        wires(m, given.transport, deadline_after(given.connect_timeout)),
        barrier_cells(static_cast<std::size_t>(m.size())),
        message_numbers(2 * static_cast<std::size_t>(m.size())),
        crowded_(wires.crowded()) {}
  session(session const&) = delete;
  ~session() {
    bool const idle = first_ == nullptr && messages == nullptr;
    for (; messages != nullptr; messages = messages->next) messages->state = status::failed, messages->run = nullptr;
    for (; first_ != nullptr; first_ = first_->next) first_->state = status::failed, first_->run = nullptr;
    if (::getpid() != process_) return;  // a fork of the rank is no rank
    if (idle && !failed()) {
      wires.finish(started_);
      return;
    }
    if (!failed()) wires.tell(fault(errc::aborted, rank, "rank %d left with operations unfinished", rank));
    // Who leaves because of a fault first tells it on: others might see its end before they are told, and take it for
    // the culprit. And its caller may free what peers are still at.
    std::optional<fault> why;
    reason(why);
  }

  // Takes an operation into the order. Throws, before anything is sent, when the communicator is finished: first the
  // fault itself, as `wait` would, for a fault may come just before or just after the start.
  [[gnu::noinline]] void start(started& op) {  // code for each transport, not for each operation
    check_usable();
    op.sequence = ++started_;
    (last_ == nullptr ? first_ : last_->next) = &op;
    last_ = &op;
  }
  void check_usable() {
    if (failed()) refuse();  // asked once: the answer may change
  }
  [[noreturn, gnu::cold]] void refuse() {
    if (!std::exchange(fault_is_known_, true)) throw error(wires.told()->why, why(), culprit());
    throw error(errc::not_connected,
                detail::words("this communicator has failed and is finished: %s", wires.told()->words), culprit());
  }
  // Messages are not in the order: each runs when it is the first between its two ranks (point_to_point.hpp).
  void start_message(started& m) {
    check_usable();
    started** at = &messages;
    while (*at != nullptr) at = &(*at)->next;
    *at = &m;
  }
  void end_message(started& m, status how) noexcept {
    fault_is_known_ |= how == status::failed;
    started** at = &messages;
    while (*at != nullptr && *at != &m) at = &(*at)->next;
    if (*at != nullptr) *at = m.next;
  }
  void run_messages() noexcept {
    for (started *m = messages, *next; m != nullptr; m = next) next = m->next, m->run(*m);
  }
  // Runs what comes before `op`. True when it is `op`'s turn.
  bool reach(started& op) noexcept { return first_ == &op || drive_up_to(op); }
  // Takes the first operation, which has ended, out of the order.
  void done(status how) noexcept {
    fault_is_known_ |= how == status::failed;
    first_ = first_->next;
    if (first_ == nullptr) last_ = nullptr;
  }
  // Takes any operation out, unfinished: the peers cannot go on without it.
  [[gnu::cold]] void abandon(started& op, char const* how, std::optional<fault>& why) noexcept {
    fault_is_known_ = true;
    fail(fault(errc::aborted, rank, "rank %d %s", rank, how));
    started** at = &first_;
    started* before = nullptr;
    while (*at != nullptr && *at != &op) before = *at, at = &before->next;
    if (*at != nullptr) {
      *at = op.next;
      if (last_ == &op) last_ = before;
    }
    reason(why);
  }
  // The fault by which an operation has failed. When it is given, nobody touches this rank's buffers any more.
  [[gnu::noinline]] void reason(std::optional<fault>& why) noexcept {
    fault_is_known_ = true;
    why = *wires.told();
    wires.tell(*why);  // not everyone may have been told
    if constexpr (requires { wires.settle(); }) wires.settle();
  }

  bool failed() noexcept { return wires.told() != nullptr; }
  void fail(fault const& f) noexcept { wires.tell(f); }  // each rank keeps the first that it is told
  std::string why() { return wires.told()->words; }
  int culprit() { return wires.told()->peer; }

  // Ranks called different things. The first to notice tells all.
  [[gnu::cold]] void disagree(call const& mine, int peer, call const& theirs) noexcept {
    fail(fault(errc::mismatch, peer, "rank %d called %s, but rank %d called %s", rank, describe(mine).c_str(), peer,
               describe(theirs).c_str()));
  }
  // The same where peers are mapped, and what they called can be looked up.
  [[gnu::noinline]] void disagree(call const& mine, int peer) noexcept { disagree(mine, peer, wires.called(peer)); }

  // Runs it to its end.
  [[gnu::noinline]] void wait_for(started& op) {
    unsigned spent = 0;
    for (int left = pauses();;) {
      if (reach(op)) op.run(op);
      if (op.state != status::pending) return;
      if (left-- > 0)
        pause();
      else
        linger(spent++);
    }
  }
  // One poll in vain: now and then it looks at the clock and at the peers. Finds the fault that ends the wait, if any.
  void in_vain() noexcept {
    if (messages != nullptr) run_messages();  // peers may wait for them, or they come no further
    if (first_ == nullptr || failed()) return;
    std::uint64_t const sequence = first_->sequence;
    bool const moved = sequence != watched_ || first_->moves != moves_;
    watched_ = sequence, moves_ = first_->moves;
    if (patience_.is_up(moved)) look_at_peers(sequence);
  }
  // Whether call `sequence` is worth waiting for any longer.
  [[gnu::cold]] void look_at_peers(std::uint64_t sequence) noexcept {
    auto const number = static_cast<unsigned long long>(sequence);
    if (int const peer = wires.lost(sequence); peer >= 0)
      fail(fault(errc::peer_lost, peer, "rank %d has ended or left, and rank %d needs it in call %llu", peer, rank,
                 number));
    if (patience_.over(options.timeout)) {
      int const peer = absent();
      fail(fault(errc::timed_out, peer,
                 "rank %d waited %lld ms in call %llu for %s%s: see what keeps it, or raise connect_options::timeout",
                 rank, static_cast<long long>(options.timeout.count()), number, peer < 0 ? "its peers" : "rank ",
                 peer < 0 ? "" : std::to_string(peer).c_str()));
    }
  }
  // How long to go on polling before `linger`. With a processor for each rank, as long as hops take; without, whoever
  // is waited for may need this one.
  int pauses() const { return crowded_ || contended_ ? 10 : 2000; }
  // Called between polls when pauses are used up: yields, and when that has gone on for a while, rests.
  // @param spent how often it was called in this wait
  [[gnu::noinline]] void linger(unsigned spent) noexcept {
    in_vain();
    auto const before = std::chrono::steady_clock::now();
    bool const rests = spent >= yields;
    if (rests)
      wires.rest();
    else
      ::sched_yield();
    auto const given = std::chrono::steady_clock::now() - before;
    if (!rests) contended_ = given > somebody_else;
    book.waited(given);
  }
  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
  }

  connect_options<X> const options;
  int const rank, size;
  X wires;
  std::vector<std::uint8_t> barrier_cells;  // what a barrier reduces: one byte a rank
  // What an operation among mapped peers has moved. By itself, so that bench/engine.sh can say what it costs.
  [[gnu::noinline]] void account(collective what, route how, bool root, std::size_t exchanges, partition const& chunks,
                                 std::size_t element) noexcept {
    book.went_among_mapped(what, how, root, exchanges, chunks.count * element,
                           chunks.length(static_cast<std::size_t>(rank)) * element);
  }
  ledger book;
  started* messages = nullptr;                 // under way, in the order started
  std::vector<std::uint64_t> message_numbers;  // so many started, from and to each rank

 private:
  static constexpr unsigned yields = [] {
    if constexpr (requires { X::yields; })
      return X::yields;
    else
      return 2000u;
  }();
  static constexpr std::chrono::microseconds somebody_else{2};  // a yield takes longer when another runs meanwhile

  // A rank that has not come to the operation, where the transport can tell; else -1.
  int absent() {
    if constexpr (requires { wires.absent(); })
      return wires.absent();
    else
      return -1;
  }
  [[gnu::noinline]] bool drive_up_to(started& op) noexcept {
    while (first_ != &op && first_ != nullptr)
      if (first_->run(*first_) == status::pending) return false;
    return first_ == &op;
  }

  bool const crowded_;           // by ranks
  bool contended_ = false;       // by others, as the last yield has shown
  bool fault_is_known_ = false;  // an operation here has ended by it
  started *first_ = nullptr, *last_ = nullptr;
  pid_t const process_ = ::getpid();
  std::uint64_t started_ = 0, watched_ = 0, moves_ = 0;
  patience patience_;
};

// A bootstrap as a meeting, once all have come and agreed.
template <store S>
class agreed_meeting {
 public:
  agreed_meeting(bootstrap<S> const& who, std::string const& settings, time_point until)
      : who_(who), token_(agree(who, settings, until)) {}
  int rank() const { return who_.rank; }
  int size() const { return who_.size; }
  std::uint64_t token() const { return token_; }
  std::vector<std::string> exchange(std::string_view name, std::string const& mine, time_point until) {
    return ringlet::exchange(who_, name, mine, until);
  }

 private:
  bootstrap<S> who_;
  std::uint64_t token_;
};

}  // namespace detail

/// Connects this rank to the others of its bootstrap; a collective. A store serves one connection: to connect again,
/// put a `prefixed` store into the bootstrap.
/// @tparam X the transport
/// @tparam Size the number of ranks when it is known while compiling
/// @throws error(errc::bootstrap) naming the ranks that are missing or twice
/// @throws error(errc::mismatch) when ranks were set up differently
/// @throws error(errc::invalid_argument) for a negative time, or another size than the program was compiled for
/// @throws error whatever the transport throws
template <transport X, int Size = dynamic_size, store S>
communicator<X, Size> connect(bootstrap<S> const& who, connect_options<X> const& options = {}) {
  if (Size != dynamic_size && who.size != Size)
    throw error(errc::invalid_argument, "the program was compiled for " + std::to_string(Size) +
                                            " ranks, but there are " + std::to_string(who.size));
  options.check();
  detail::agreed_meeting<S> m(who, options.transport.describe() + " " + options.select.describe(),
                              detail::deadline_after(options.connect_timeout));
  return communicator<X, Size>(m, options);
}

}  // namespace ringlet
