// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "ringlet/call.hpp"
#include "ringlet/clock.hpp"
#include "ringlet/collective_operation.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/element.hpp"
#include "ringlet/error.hpp"
#include "ringlet/link.hpp"
#include "ringlet/operation.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/schedule.hpp"
#include "ringlet/transport.hpp"

namespace ringlet {

/// Refinement of a transport: links between any two of its ranks.
///
/// Contract. `pair(peer, to_send)` gives the link between this rank and another one, always the same: `next()` leads to
/// that rank, `prev()` comes from it. It announces calls. Called before each message; may throw `error`, or make what
/// the link needs. `pair_slots()` and `pair_slot_bytes()` say what its queues hold. `gone(peer)`: whether that rank has
/// ended, or left, in good order or not; what it sent before may still arrive. May cost a system call.
template <class X>
concept pairwise = transport<X> && requires(X& x, int peer, bool to_send) {
  { x.pair(peer, to_send) } -> link<std::byte>;
  requires announcing_link<std::remove_reference_t<decltype(x.pair(peer, to_send))>>;
  { x.pair_slots() } -> std::same_as<std::size_t>;
  { x.pair_slot_bytes() } -> std::same_as<std::size_t>;
  { x.gone(peer) } -> std::same_as<bool>;
};

namespace detail {
// A message under way: from here to a peer, or the other way.
struct started_message : started {
  int peer;
  bool sends;
};
}  // namespace detail

/// A message that has been started: what `async_send` and `async_recv` return. It is the broadcast of two ranks: the
/// same engine, over the link of the two. It cannot be moved, and its buffer must stay as it is until it is ready.
/// Polling or waiting for any operation of the communicator drives it.
/// @tparam X the transport
/// @tparam T the element
template <pairwise X, class T>
class message_operation : detail::started_message {
  using arith = arithmetic<T, keep>;
  using link_type = std::remove_reference_t<decltype(std::declval<X&>().pair(0, true))>;
  using engine = ring_operation<ring_schedule<collective::broadcast>, arith, link_type>;

 public:
  /// Starts it; most users call `async_send` and `async_recv`.
  /// @param buffer is not written when this rank sends
  message_operation(detail::session<X>& s, T* buffer, std::size_t count, int other, bool to_send)
      : session_(&s),
        engine_({to_send ? 0 : 1, 2}, checked(s, buffer, count, other, to_send), {buffer, buffer, {count, 2}},
                detail::slices_of(count / 2, sizeof(T), s.wires.pair_slots(), s.wires.pair_slot_bytes()),
                arith(keep{}, 2), &call_) {
    peer = other;
    sends = to_send;
    call_.count = count;
    s.start_message(*this);  // what follows cannot fail
    run = [](started& self) noexcept { return static_cast<message_operation&>(self).advance(); };
    call_.sequence = sequence = ++s.message_numbers[2 * static_cast<std::size_t>(other) + to_send];
  }
  message_operation(message_operation const&) = delete;
  /// One that is not finished is cancelled.
  ~message_operation() {
    if (state == status::pending) give_up("dropped a message before its end");
  }

  /// Goes as far as it can without waiting, and says how far it has come. `failed`: `wait` throws the reason.
  status poll() noexcept {
    if (progress() == status::pending) session_->reach(*this), session_->in_vain(), look();
    return state;
  }
  /// Waits until it is finished: received, or all handed over, so that the buffer is the caller's again. The receiver
  /// of a message that fits the queue may not have come yet.
  /// @throws error(errc::peer_lost, timed_out, mismatch, aborted) in the words of the rank that noticed first
  void wait() {
    unsigned spent = 0;
    for (int left = state == status::pending ? session_->pauses() : 0; progress() == status::pending;)
      if (left-- > 0)
        session_->pause();
      else
        session_->reach(*this), session_->linger(spent++), look();  // collectives may be what the peer waits for
    if (state == status::failed) detail::raise(why_, -1, -1);
  }
  /// Gives it up; all ranks' operations on this communicator end with `errc::aborted`. Nothing happens when it is
  /// finished.
  void cancel() noexcept {
    if (state != status::pending) return;
    give_up("cancelled a message");
    state = status::failed;
  }

 private:
  static link_type& checked(detail::session<X>& s, T const* buffer, std::size_t count, int other, bool to_send) {
    auto refuse = [](std::string const& why) { throw error(errc::invalid_argument, why); };
    if (other < 0 || other >= s.size)
      refuse(detail::words("there is no rank %d among %d to send to or receive from", other, s.size));
    if (other == s.rank) refuse(detail::words("rank %d would send to itself: copy it", other));
    if (buffer == nullptr && count != 0) refuse("a null pointer with a count that is not 0");
    if (reinterpret_cast<std::uintptr_t>(buffer) % alignof(T) != 0)
      refuse(detail::words("the buffer is not aligned to the %zu bytes that its element needs", alignof(T)));
    if (std::size_t const most = s.wires.pair_slot_bytes(); sizeof(T) > most)
      refuse(detail::words("an element of %zu bytes is larger than a slot of %zu", sizeof(T), most));
    if constexpr (requires { s.wires.refuse_on_device(buffer); }) s.wires.refuse_on_device(buffer);
    s.check_usable();
    return s.wires.pair(other, to_send);
  }
  // Messages between two ranks in one direction go one after the other: the one whose turn it is.
  started const& first() const {
    for (started const* m = session_->messages; m != this; m = m->next)
      if (auto const& other = static_cast<started_message const&>(*m); other.peer == peer && other.sends == sends)
        return other;
    return *this;
  }
  status advance() noexcept {
    status now = session_->failed() ? status::failed : &first() != this ? status::pending : engine_.poll();
    moves = engine_.moves();
    if (now == status::pending) return now;
    if (call const* theirs = now == status::failed ? engine_.disagreement() : nullptr)
      session_->disagree(call_, peer, *theirs);
    if (now == status::failed && !session_->failed()) return status::pending;  // the link has yet to be told why
    session_->end_message(*this, now);
    if (now == status::ready) session_->book.went_round(engine_.moved(), sizeof(T));
    if (now == status::failed) session_->reason(why_);
    return state = now;
  }
  status progress() noexcept {
    if (state == status::pending) session_->run_messages();
    return state;
  }
  void give_up(char const* how) noexcept {
    session_->abandon(*this, how, why_);
    session_->end_message(*this, status::failed);
  }
  // After a poll in vain: now and then at the clock and at the peer. Time counts as in a collective's wait, and not
  // while a message before this one gets on.
  void look() noexcept {
    if (state != status::pending || session_->failed()) return;
    started const& now = first();
    bool const moved = now.sequence != watched_ || now.moves != moves_;
    watched_ = now.sequence, moves_ = now.moves;
    if (!patience_.is_up(moved)) return;
    int const killed = session_->wires.lost(0);
    int const lost = killed >= 0 ? killed : session_->wires.gone(peer) && progress() == status::pending ? peer : -1;
    if (state != status::pending) return;  // it came before the peer left
    char const* const way = sends ? "to" : "from";
    if (lost >= 0)
      session_->fail(fault(errc::peer_lost, lost,
                           "rank %d has ended or left, and rank %d waits in message %llu %s rank %d", lost,
                           session_->rank, static_cast<unsigned long long>(sequence), way, peer));
    else if (patience_.over(session_->options.timeout))
      session_->fail(fault(errc::timed_out, peer,
                           "rank %d waited %lld ms in message %llu %s rank %d: see what keeps it, or raise "
                           "connect_options::timeout",
                           session_->rank, static_cast<long long>(session_->options.timeout.count()),
                           static_cast<unsigned long long>(sequence), way, peer));
  }

  detail::session<X>* session_;
  call call_ = detail::prototype<collective::message, T, keep>;
  engine engine_;
  std::uint64_t watched_ = 0, moves_ = 0;  // of the message whose turn it is
  detail::patience patience_;
  std::optional<fault> why_;  // once it has failed
};

/// Starts to send a buffer to another rank, where `recv` is to be called with the same count and element. Messages from
/// one rank to another arrive in the order in which they were started; they are in no order with collectives, nor with
/// other ranks' messages, and get on together: a ring in which each rank sends to the right before it receives from the
/// left does not lock.
/// @param comm the communicator, whose transport is `pairwise`
/// @param input any count, also 0; is not written
/// @param to another rank
/// @return the operation: `poll`, `wait`, `cancel`
/// @throws error(errc::invalid_argument) when the buffer or the rank cannot be right, before anything is sent
/// @throws error(errc::not_connected) when the communicator has failed before
/// @throws error(errc::out_of_memory) when there is no memory for the first message between the two
template <class X, int Size, contiguous In>
[[nodiscard]] auto async_send(communicator<X, Size>& comm, In const& input, int to) {
  static_assert(pairwise<X>, "ringlet: this transport has no links between any two ranks: see `pairwise`");
  using T = element_of<In const>;
  // The engine keeps a value at its sender where it is: nothing is written.
  return message_operation<X, T>(comm.session(), const_cast<T*>(std::data(input)), std::size(input), to, true);
}

/// Starts to receive what another rank sends.
/// @param output as many elements as that rank sends
/// @param from another rank
/// @return the operation: `poll`, `wait`, `cancel`
/// @throws error as `async_send`
template <class X, int Size, contiguous Out>
[[nodiscard]] auto async_recv(communicator<X, Size>& comm, Out&& output, int from) {
  static_assert(pairwise<X>, "ringlet: this transport has no links between any two ranks: see `pairwise`");
  static_assert(stays<Out>, "ringlet: the output would be gone before the operation is: give a buffer that stays");
  return message_operation<X, element_of<Out>>(comm.session(), std::data(output), std::size(output), from, false);
}

/// Sends a buffer to another rank: see `async_send`. Returns when the buffer is the caller's again: of a message that
/// fits the queue between the two, before the receiver has come.
/// @throws error also what `wait` throws. Ranks that send and receive different counts or elements both get
/// `errc::mismatch`; who has sent and gone on gets it at its next operation
template <class X, int Size, contiguous In>
void send(communicator<X, Size>& comm, In const& input, int to) {
  async_send(comm, input, to).wait();
}

/// Receives what another rank sends: see `async_recv`.
/// @throws error also what `wait` throws
template <class X, int Size, contiguous Out>
void recv(communicator<X, Size>& comm, Out&& output, int from) {
  async_recv(comm, output, from).wait();
}

}  // namespace ringlet
