// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <sched.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringlet/bootstrap/roster.hpp"
#include "ringlet/element.hpp"
#include "ringlet/error.hpp"
#include "ringlet/schedule.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/store.hpp"
#include "ringlet/transport.hpp"

namespace ringlet {

/// What a communicator is told when it connects.
/// @tparam X the transport, whose settings come with it
template <transport X>
struct connect_options {
  /// The transport's own settings; what of them must be alike is compared between ranks.
  typename X::settings transport{};
  /// How long to wait for all ranks to come and connect.
  std::chrono::milliseconds connect_timeout{60'000};
  /// How long an operation may make a rank wait. A rank that has ended is noticed much sooner.
  std::chrono::milliseconds timeout{60'000};
};

template <class T, class X>
class allocation;  // see allocate.hpp
namespace detail {
template <class X>
class session;
}

/// Ranks that are connected in a ring, and the order of what they do together.
///
/// Operations run in the order in which they were started, and every rank starts the same ones in the same order. One
/// thread at a time uses a communicator; `abort` alone may come from another. After a failure it is finished: every
/// operation, also those that are waiting, ends with an error, on all ranks, and there is nothing to repair. It can be moved,
/// also while operations run; it must outlive them, or they end as if aborted.
/// @tparam X the transport
/// @tparam Size the number of ranks when it is known while compiling, like the extent of a `std::span`; else `dynamic_size`
template <transport X, int Size = dynamic_size>
class communicator {
 public:
  /// Connects the ranks of a meeting. Most users call `connect`.
  template <meeting M>
  communicator(M& m, connect_options<X> const& options)
      : session_(std::make_unique<detail::session<X>>(m, options)) {}

  /// This rank, 0 <= rank() < size().
  int rank() const { return session().rank; }
  /// How many ranks there are.
  int size() const {
    if constexpr (Size != dynamic_size) return Size;
    else return session().size;
  }
  /// How a buffer of `count` elements is cut: chunk r is rank r's in reduce_scatter and all_gather.
  partition chunks(std::size_t count) const { return {count, static_cast<std::size_t>(size())}; }

  /// Memory that the transport can use without copies; a collective, with the same count on all ranks.
  /// @tparam T the element
  /// @return a contiguous range of zeroed elements, which gives the memory back when it goes
  /// @throws error(errc::out_of_memory) with the bytes needed and available
  template <element T>
  allocation<T, X> allocate(std::size_t count);

  /// Makes smaller communicators; a collective.
  /// @param color ranks of one color make one communicator; a negative color makes none
  /// @param key decides the order of ranks in it; equal keys keep their order
  /// @return the one of this rank's color
  std::optional<communicator<X>> split(int color, int key = 0);

  /// Ends everything that runs or waits here or at other ranks, with `errc::aborted`. Any thread.
  void abort(std::string_view why = "abort() was called") {
    auto& s = session();
    s.wires.tell(fault(errc::aborted, s.rank, "rank " + std::to_string(s.rank) + ": " + std::string(why)));
  }

  /// The transport, for those who need more of it than the contract says.
  X& transport() { return session().wires; }

  /// What operations hold on to. Not for users.
  /// @throws error(errc::not_connected) when the communicator was moved from
  detail::session<X>& session() const {
    if (session_ == nullptr)
      throw error(errc::not_connected, "this communicator was moved from; use the one it was moved to");
    return *session_;
  }

 private:
  std::unique_ptr<detail::session<X>> session_;
};

namespace detail {

// An operation that has been started, as its communicator sees it. A pointer to a function, not a virtual one: the
// operation that a caller polls is polled directly, and only those before it through the pointer.
struct started {
  started* next = nullptr;
  status state = status::pending;
  std::uint64_t sequence = 0;
  status (*run)(started&) noexcept = nullptr;
};

// A communicator, at an address that stays. Knows nothing of elements.
template <class X>
class session {
 public:
  template <meeting M>
  session(M& m, connect_options<X> const& given)
      : options(given), rank(m.rank()), size(m.size()),
        wires(m, given.transport, std::chrono::steady_clock::now() + given.connect_timeout), barrier_cells(static_cast<std::size_t>(m.size())), crowded_(wires.crowded()) {}
  session(session const&) = delete;
  ~session() {
    bool const idle = first_ == nullptr;
    for (; first_ != nullptr; first_ = first_->next) first_->state = status::failed, first_->run = nullptr;
    if (!idle) wires.tell(fault(errc::aborted, rank, "rank " + std::to_string(rank) + " left with operations unfinished"));
    else if (!failed()) wires.finish(started_);
  }

  // Takes an operation into the order. Throws, before anything is sent, when the communicator is finished.
  void start(started& op) {
    if (failed()) throw error(errc::not_connected, "this communicator has failed and is finished: " + why(), culprit());
    op.sequence = ++started_;
    (last_ == nullptr ? first_ : last_->next) = &op;
    last_ = &op;
  }
  // Runs what comes before `op`. True when it is `op`'s turn.
  bool reach(started& op) noexcept {
    while (first_ != &op && first_ != nullptr)
      if (first_->run(*first_) == status::pending) return false;
    return first_ == &op;
  }
  // Takes the first operation, which has ended, out of the order.
  void done() noexcept {
    first_ = first_->next;
    if (first_ == nullptr) last_ = nullptr;
  }
  // Takes any operation out, unfinished: the peers cannot go on without it.
  void abandon(started& op, char const* how) noexcept {
    fail(fault(errc::aborted, rank, "rank " + std::to_string(rank) + " " + how));
    started** at = &first_;
    started* before = nullptr;
    while (*at != nullptr && *at != &op) before = *at, at = &before->next;
    if (*at == nullptr) return;
    *at = op.next;
    if (last_ == &op) last_ = before;
  }

  bool failed() noexcept { return wires.told() != nullptr; }
  void fail(fault const& f) noexcept { wires.tell(f); }  // each rank keeps the first that it is told
  std::string why() { return wires.told()->words; }
  int culprit() { return wires.told()->peer; }

  // One poll in vain. Now and then it looks at the clock and at the peers. Returns false when the wait is over: a fault was
  // found or told.
  bool in_vain() noexcept {
    if (first_ == nullptr) return false;
    std::uint64_t const sequence = first_->sequence;
    auto const now = std::chrono::steady_clock::now();
    if (sequence != watched_) watched_ = sequence, since_ = now, looked_ = now;
    if (now - looked_ > look_after) {
      looked_ = now;
      if (int const peer = wires.lost(sequence); peer >= 0 && !failed())
        fail(fault(errc::peer_lost, peer, "rank " + std::to_string(peer) + " has ended or left, and rank " +
                                              std::to_string(rank) + " needs it in call " + std::to_string(sequence)));
      if (now - since_ > options.timeout && !failed())
        fail(fault(errc::timed_out, -1, "rank " + std::to_string(rank) + " waited " + std::to_string(options.timeout.count()) +
                                            " ms for its peers in call " + std::to_string(sequence) +
                                            ": see which rank has not come, or raise connect_options::timeout"));
    }
    return !failed();
  }
  // Waits while `poll` says pending: pauses, then yields, then rests.
  template <class Poll>
  void wait(Poll&& poll) {
    for (int left = crowded_ ? crowded_pauses : pauses; left > 0; --left) {
      if (poll() != status::pending) return;
      pause();
    }
    auto const begin = std::chrono::steady_clock::now();
    while (poll() == status::pending) {
      if (!in_vain()) continue;  // the next poll says failed
      if (std::chrono::steady_clock::now() - begin < yield_for) ::sched_yield();
      else wires.rest();
    }
  }

  connect_options<X> const options;
  int const rank, size;
  X wires;
  std::vector<std::uint8_t> barrier_cells;  // what a barrier reduces: one byte a rank

 private:
  // With a processor for each rank a pause is worth while for as long as a hop takes; without, whoever is waited for
  // may need this one.
  static constexpr int pauses = 2000, crowded_pauses = 10;
  static constexpr std::chrono::microseconds yield_for{2000}, look_after{20'000};

  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
  }

  bool const crowded_;
  started *first_ = nullptr, *last_ = nullptr;
  std::uint64_t started_ = 0, watched_ = 0;
  std::chrono::steady_clock::time_point since_, looked_;
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

/// Connects this rank to the others of its bootstrap; a collective. A store serves one connection: to connect again, put
/// a `prefixed` store into the bootstrap.
/// @tparam X the transport
/// @tparam Size the number of ranks when it is known while compiling
/// @throws error(errc::bootstrap) naming the ranks that are missing or twice
/// @throws error(errc::mismatch) when ranks were set up differently
/// @throws error whatever the transport throws
template <transport X, int Size = dynamic_size, store S>
communicator<X, Size> connect(bootstrap<S> const& who, connect_options<X> const& options = {}) {
  if (Size != dynamic_size && who.size != Size)
    throw error(errc::invalid_argument, "the program was compiled for " + std::to_string(Size) + " ranks, but there are " +
                                            std::to_string(who.size));
  detail::agreed_meeting<S> m(who, options.transport.describe(), std::chrono::steady_clock::now() + options.connect_timeout);
  return communicator<X, Size>(m, options);
}

}  // namespace ringlet
