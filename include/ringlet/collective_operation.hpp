// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <type_traits>

#include "ringlet/call.hpp"
#include "ringlet/chord_operation.hpp"
#include "ringlet/chords.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/direct.hpp"
#include "ringlet/element.hpp"
#include "ringlet/mapped_peers.hpp"
#include "ringlet/operation.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/rooted.hpp"
#include "ringlet/schedule.hpp"
#include "ringlet/transport.hpp"

namespace ringlet {

/// A range whose elements lie side by side: a span, vector, array, or an allocation of a communicator. A strided view
/// is none.
template <class R>
concept contiguous = requires(R& r) {
  {*std::data(r)};
  { std::size(r) } -> std::convertible_to<std::size_t>;
};
/// The element of a contiguous range.
template <contiguous R>
using element_of = std::remove_cv_t<std::remove_pointer_t<decltype(std::data(std::declval<R&>()))>>;

/// Whether a buffer given as `R&&` outlives the call: a variable, or a view, but no container made in the call. A view
/// is what owns nothing, and whose elements do not become constant with it, as those of an array do.
template <class R>
inline constexpr bool stays =
    std::is_lvalue_reference_v<R> ||
    (std::is_trivially_destructible_v<R> &&
     std::is_same_v<decltype(std::data(std::declval<R&>())), decltype(std::data(std::declval<R const&>()))>);

namespace detail {

// One ring operation a lane, made in place when it is known that a ring is needed.
template <class Ring>
class ring_lanes {
 public:
  static constexpr std::size_t most = 16;
  ring_lanes() = default;
  ring_lanes(ring_lanes const&) = delete;
  template <class... Args>
  void add(Args&&... args) {
    static_assert(std::is_trivially_destructible_v<Ring>);  // so nobody has to
    ::new (static_cast<void*>(memory_ + count_ * sizeof(Ring))) Ring(static_cast<Args&&>(args)...);
    states_[count_++] = status::pending;
  }
  status poll() {
    status all = status::ready;
    for (std::size_t i = 0; i < count_; ++i) {
      if (states_[i] == status::pending) states_[i] = at(i)->poll();
      if (states_[i] == status::failed) return status::failed;
      if (states_[i] == status::pending) all = status::pending;
    }
    return all;
  }
  std::size_t count() const { return count_; }
  std::uint64_t moves() {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < count_; ++i) sum += at(i)->moves();
    return sum;
  }
  Ring* at(std::size_t i) { return std::launder(reinterpret_cast<Ring*>(memory_ + i * sizeof(Ring))); }

 private:
  alignas(Ring) std::byte memory_[most * sizeof(Ring)];
  status states_[most];
  std::size_t count_ = 0;
};

// The buffers of a call, without their types.
struct given {
  void const* input;
  std::size_t input_count;
  void const* output;
  std::size_t output_count;
  std::size_t element, alignment, wire;  // bytes
  collective what;
};
// Throws error(errc::invalid_argument) when they cannot be right.
[[gnu::noinline]] inline void check(given const& g, partition chunks, std::size_t rank, std::size_t slot_bytes) {
  auto refuse = [](std::string const& why) { throw error(errc::invalid_argument, why); };
  std::size_t const length = chunks.length(rank);
  if ((g.what == collective::all_reduce || g.what == collective::broadcast) && g.output_count != g.input_count)
    refuse(words("the output has %zu elements, the input %zu: give as many", g.output_count, g.input_count));
  if (g.what == collective::reduce_scatter && g.output_count != length)
    refuse(words("the output has %zu elements, chunk %zu of %zu has %zu", g.output_count, rank, chunks.count, length));
  if (g.what == collective::all_gather && g.input_count != length)
    refuse(words("the input has %zu elements, chunk %zu of %zu has %zu", g.input_count, rank, chunks.count, length));
  if ((g.input == nullptr && g.input_count != 0) || (g.output == nullptr && g.output_count != 0))
    refuse("a null pointer with a count that is not 0");
  // In place means: the same memory, each chunk at its own place. Anything else would be read after it was written.
  auto const in = reinterpret_cast<std::uintptr_t>(g.input), out = reinterpret_cast<std::uintptr_t>(g.output);
  std::uintptr_t const home = chunks.offset(rank) * g.element;
  bool const overlap = in < out + g.output_count * g.element && out < in + g.input_count * g.element;
  bool const in_place = g.what == collective::all_gather       ? in == out + home
                        : g.what == collective::reduce_scatter ? out == in + home
                                                               : in == out;
  if (overlap && !in_place)
    refuse("input and output overlap without being the same: give separate ones, or one in place");
  if (((in | out) & (g.alignment - 1)) != 0)  // a power of two
    refuse(words("a buffer is not aligned to the %zu bytes that its element needs", g.alignment));
  if (g.wire > slot_bytes) refuse(words("an element of %zu bytes is larger than a slot of %zu", g.wire, slot_bytes));
}

// Slices as large as a slot, or smaller, so that even a chunk of moderate size goes in several.
// @param share elements of the longest chunk that one lane carries
constexpr pipelining slices_of(std::size_t share, std::size_t wire_bytes, std::size_t slots, std::size_t slot_bytes) {
  std::size_t const depth = slots > 3 ? slots / 2 : 1, part = (share + depth - 1) / depth;
  std::size_t const widest = slot_bytes / wire_bytes, least = (slot_bytes < 4096 ? slot_bytes : 4096) / wire_bytes;
  return {part > widest ? widest : part > least ? part : least > 1 ? least : 1, depth};
}

// Throws error(errc::invalid_argument) when there is no such rank.
inline void check_root(int root, int size) {
  if (root < 0 || root >= size)
    throw error(errc::invalid_argument, words("the root is rank %d, expected one of 0 to %d", root, size - 1));
}

// What all operations of a type call.
template <collective What, class T, class Op>
inline constexpr call prototype = [] {
  using arith = arithmetic<T, Op>;
  call c{.element = element_id<T>, .what = What};
  auto append = [](char* to, std::size_t size, char const* from) {
    std::size_t n = 0;
    while (to[n] != 0) ++n;
    for (; n + 1 < size && *from != 0; ++n, ++from) to[n] = *from;  // as much as fits
  };
  append(c.element_name, sizeof c.element_name, element_name<T>);
  if constexpr (!arith::keeps || !std::is_same_v<typename arith::wire, T>) {
    c.reduction = reduction_id<Op>;
    using policies = detail::policies<Op>;
    auto also = [&](char const* text) { append(c.reduction_name, sizeof c.reduction_name, text); };
    also(operation_name<Op>);
    if constexpr (!std::is_void_v<typename policies::accumulator>)
      also(" in "), also(element_name<typename policies::accumulator>);
    if constexpr (!std::is_void_v<typename policies::wire>) also(" as "), also(element_name<typename policies::wire>);
  }
  return c;
}();

// Throws what an operation failed by: nothing when its communicator went first.
[[noreturn, gnu::cold]] inline void raise(std::optional<fault> const& by, int step, int lane) {
  if (!by) throw error(errc::not_connected, "the communicator of this operation is gone");
  throw error(by->why, by->words, by->peer, step, lane);
}

}  // namespace detail

/// A collective that has been started: what the `async_` functions return. It cannot be moved, for peers may be writing
/// to what it describes; its buffers must stay as they are until it is ready. Polling any operation drives those that
/// were started before it, too.
/// @tparam X the transport
/// @tparam Size the communicator's number of ranks, or `dynamic_size`
/// @tparam What the collective
/// @tparam T the element
/// @tparam Op the operator
template <transport X, int Size, collective What, class T, class Op>
class collective_operation : detail::started {
  using arith = arithmetic<T, Op>;
  using link_type = std::remove_reference_t<decltype(std::declval<X&>().lane(0))>;
  using ring = ring_operation<ring_schedule<What, Size>, arith, link_type>;
  static constexpr bool mapped = mapped_peers<X, T>;
  static constexpr bool has_chords = !mapped && chorded<X>;
  struct none {};
  // Lazily: of two operations one is ill-formed.
  template <collective C>
  struct among_mapped : std::type_identity<direct_operation<C, arith, X>> {};
  template <collective C>
    requires(rooted(C))
  struct among_mapped<C> : std::type_identity<rooted_operation<C, arith, X>> {};
  template <collective C>
  struct by_chords : std::type_identity<chord_operation<C, arith, X>> {};
  template <collective C>
    requires(rooted(C))
  struct by_chords<C> : std::type_identity<none> {};
  // What comes before a ring, or instead of it.
  using direct =
      typename std::conditional_t<mapped, among_mapped<What>,
                                  std::conditional_t<has_chords, by_chords<What>, std::type_identity<none>>>::type;
  static constexpr bool on_chords = has_chords && !rooted(What);
  static_assert(What != collective::all_gather || arith::keeps,
                "ringlet: an all-gather reduces nothing: give keep{} or travel_as<W>(keep{})");
  static_assert(What != collective::broadcast || arith::keeps,
                "ringlet: a broadcast reduces nothing: give keep{} or travel_as<W>(keep{})");

 public:
  /// Starts it; most users call `async_all_reduce` and the like. Checks arguments first and throws
  /// `error(errc::invalid_argument)`, before anything is sent, with what was given and what was expected.
  collective_operation(detail::session<X>& s, T const* input, std::size_t input_count, T* output,
                       std::size_t output_count, Op const& op, collective called = What, int root = 0)
      : session_(&s),
        root_(root),
        at_{input, output, {whole_input(What) ? input_count : output_count, static_cast<std::size_t>(s.size)}},
        how_(op, s.size),
        call_(detail::prototype<What, T, Op>),
        direct_(before_ring(called)) {
    detail::check({input, input_count, output, output_count, sizeof(T), alignof(T), sizeof(typename arith::wire), What},
                  at_.chunks, static_cast<std::size_t>(s.rank), s.wires.slot_bytes());
    if constexpr (requires { s.wires.refuse_on_device(input); })
      s.wires.refuse_on_device(input), s.wires.refuse_on_device(output);
    if constexpr (rooted(What)) name_root();
    s.start(*this);  // what follows cannot fail
    run = [](started& self) noexcept { return static_cast<collective_operation&>(self).advance(); };
    call_.sequence = sequence;
    call_.count = at_.chunks.count;
    call_.what = called;
    if constexpr (!mapped)
      if (!small()) make_ring(&call_);
  }
  collective_operation(collective_operation const&) = delete;
  /// One that is not finished is cancelled.
  ~collective_operation() {
    if (state == status::pending) session_->abandon(*this, "dropped an operation before its end", why_);
  }

  /// Goes as far as it can without waiting, and says how far it has come. `failed`: `wait` throws the reason.
  status poll() noexcept {
    if (progress() == status::pending) session_->in_vain();
    return state;
  }
  /// Waits until it is finished.
  /// @throws error(errc::peer_lost, timed_out, mismatch, aborted) in the words of the rank that noticed first
  void wait() {
    if (state == status::pending) session_->wait_for(*this);
    if (state == status::ready) return;
    detail::raise(why_, step_, lane_);
  }
  /// Gives it up; all ranks' operations on this communicator end with `errc::aborted`. Nothing happens when it is
  /// finished.
  void cancel() noexcept {
    if (state != status::pending) return;
    session_->abandon(*this, "cancelled an operation", why_);
    state = status::failed;
  }

 private:
  // Ranks must agree on the root. It is told with the reduction, and before it.
  void name_root() noexcept {
    call const plain = call_;
    char *to = call_.reduction_name, *const end = to + sizeof call_.reduction_name - 1;
    auto append = [&](char const* text) {
      while (*text != 0 && to != end) *to++ = *text++;  // as much as fits
    };
    char number[16] = {}, *digit = number + sizeof number - 1;
    for (int rest = root_; digit == number + sizeof number - 1 || rest != 0; rest /= 10)
      *--digit = static_cast<char>('0' + rest % 10);
    append(What == collective::broadcast ? "from rank " : "to rank "), append(digit);
    if (plain.reduction != 0) append(", "), append(plain.reduction_name);
    *to = 0;
    call_.reduction += static_cast<std::uint64_t>(root_) + 1;
  }

  direct before_ring([[maybe_unused]] collective called) {
    if constexpr (mapped && rooted(What))
      return direct(session_->wires, at_, how_, call_, session_->options.select, root_);
    else if constexpr (mapped)
      return direct(session_->wires, at_, how_, call_, session_->options.select);
    else if constexpr (on_chords) {
      auto at = at_;
      if (called == collective::barrier) at.chunks = {0, at.chunks.parts};  // that all come is enough
      return direct(session_->wires, session_->rank, at, how_, call_);
    } else
      return {};
  }
  // Whether it goes by chords: a pure function of what all ranks know.
  bool small() const {
    if constexpr (on_chords)
      return direct::possible && session_->wires.chords() != 0 &&
             direct_.input_bytes() <= session_->wires.chord_bytes();
    return false;
  }

  pipelining pipe() const {
    return detail::slices_of(at_.chunks.longest() / session_->wires.lanes(), sizeof(typename arith::wire),
                             session_->wires.slots(), session_->wires.slot_bytes());
  }
  void make_ring(call const* announced) {
    auto at = at_;
    at.lanes = session_->wires.lanes();
    int const rank = rooted(What) ? (session_->rank - root_ + session_->size) % session_->size : session_->rank;
    for (at.lane = 0; at.lane < at.lanes; ++at.lane)
      rings_.add(ring_schedule<What, Size>{rank, session_->size}, session_->wires.lane(at.lane), at, pipe(), how_,
                 announced);
  }

  // Runs it; only when it is the first in the order.
  status advance() noexcept {
    status const now = session_->failed() ? status::failed : go_on();
    if (now == status::pending) return now;
    session_->done(now);
    if (now == status::ready) return account(), state = now;
    for (std::size_t i = 0; i < rings_.count(); ++i) step_ = rings_.at(i)->step_reached(), lane_ = static_cast<int>(i);
    if constexpr (on_chords)
      if (rings_.count() == 0) step_ = direct_.step_reached();
    session_->reason(why_);  // kept here: the communicator may go first
    return state = now;
  }
  // Once it has ended: what it has moved.
  void account() noexcept {
    for (std::size_t i = 0; i < rings_.count(); ++i)
      session_->book.went_round(rings_.at(i)->moved(), sizeof(typename arith::wire));
    if constexpr (on_chords)
      if (rings_.count() == 0) session_->book.went_round(direct_.moved(), sizeof(T));
    if constexpr (mapped)
      session_->account(What, direct_.route(), rooted(What) && session_->rank == root_, direct_.exchanges(), at_.chunks,
                        sizeof(T));
  }
  status progress() noexcept {
    if (state == status::pending && session_->reach(*this)) advance();
    return state;
  }
  status go_on() noexcept {
    if constexpr (mapped)
      if (rings_.count() == 0) {
        status const met = direct_.poll();
        moves = direct_.moves();
        if (met == status::failed && direct_.disagreeing() >= 0) session_->disagree(call_, direct_.disagreeing());
        if (met != status::ready || direct_.route() != route::ring) return met;
        make_ring(nullptr);
      }
    if constexpr (on_chords)
      if (rings_.count() == 0) {
        status const now = direct_.poll();
        moves = direct_.moves();
        if (now == status::failed && direct_.disagreeing() >= 0)
          session_->disagree(call_, direct_.disagreeing(), direct_.disagreement());
        return now == status::pending && gone_elsewhere(session_->wires.lane(0)) ? status::failed : now;
      }
    status const now = rings_.poll();
    moves = rings_.moves();
    if constexpr (announcing_link<link_type>)
      for (std::size_t i = 0; now == status::failed && i < rings_.count(); ++i)
        if (call const* theirs = rings_.at(i)->disagreement()) session_->disagree(call_, previous(), *theirs);
    if constexpr (has_chords)
      if (now == status::pending && session_->wires.chords() != 0 && gone_elsewhere(session_->wires.chord(0)))
        return status::failed;
    return now;
  }
  // Whether the previous rank, which goes another way in this call, or did so in one before, waits there for this one.
  template <class Link>
  bool gone_elsewhere(Link& other_way) noexcept {
    call const* const theirs = other_way.prev().waiting();
    if (theirs == nullptr || theirs->sequence > call_.sequence) return false;  // it is ahead, and right
    session_->disagree(call_, previous(), *theirs);
    return true;
  }
  int previous() const { return (session_->rank + session_->size - 1) % session_->size; }

  detail::session<X>* session_;
  int root_;
  buffers<T> at_;
  arith how_;
  call call_;
  direct direct_;
  detail::ring_lanes<ring> rings_;
  std::optional<fault> why_;  // once it has failed
  int step_ = -1, lane_ = -1;
};

}  // namespace ringlet
