// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringlet/error.hpp"
#include "ringlet/link.hpp"
#include "ringlet/store.hpp"

namespace ringlet {

/// Why a communicator is finished, in a form that fits into shared memory and messages.
struct fault {
  errc why = errc::aborted;
  int peer = -1;         ///< the rank at fault, or -1
  char words[248] = {};  ///< for a person; ends with a zero

  fault() = default;
  /// @param format the words, as printf makes them
  [[gnu::format(printf, 4, 5)]] fault(errc e, int p, char const* format, ...) : why(e), peer(p) {
    va_list values;
    va_start(values, format);
    std::vsnprintf(words, sizeof words, format, values);
    va_end(values);
  }
};
static_assert(std::is_trivially_copyable_v<fault>);

/// How ranks that are to make a communicator find each other: what a transport is constructed from.
///
/// Contract. `rank()` and `size()` are this rank's; `token()` is a random number that all ranks share and nobody else
/// knows. `exchange(name, mine, until)` gives every rank's value, by rank; it is a collective: all ranks call it with
/// the same names in the same order, with values of at most 256 bytes. It throws `error` when a rank has not come by
/// the deadline.
template <class M>
concept meeting = requires(M& m, std::string_view name, std::string const& mine, time_point until) {
  { m.rank() } -> std::same_as<int>;
  { m.size() } -> std::same_as<int>;
  { m.token() } -> std::same_as<std::uint64_t>;
  { m.exchange(name, mine, until) } -> std::same_as<std::vector<std::string>>;
};

/// The smallest meeting there is: a world of one.
struct meeting_of_one {
  int rank() const { return 0; }
  int size() const { return 1; }
  std::uint64_t token() const { return 1; }
  std::vector<std::string> exchange(std::string_view, std::string const& mine, time_point) { return {mine}; }
};

/// What makes links: memory, mapping or registration, and the notice of a peer's end. It knows no arithmetic and no
/// collective.
///
/// Contract. `X(m, s, until)` connects the ranks of a meeting; when it returns, every rank can be sent to, and nothing
/// is left behind whatever happens to the ranks from then on. It throws `error`, at the latest at the deadline.
/// `X::settings` are plain values with defaults; `describe()` of them is compared between ranks before anything else,
/// so what must be alike has to stand in it. Then, for the one thread that uses the communicator:
/// - `lane(i)`, for i < `lanes()`, is a link; `slots()` and `slot_bytes()` say what its queues hold.
/// - `crowded()`: whether there are more ranks than processors to run them, so that a wait should yield soon.
/// - `rest()`: called while there is nothing to do; returns after a millisecond or so at the latest, and sooner when
///   something arrives, if the transport can tell. Often called in vain: the first call may only prepare.
/// - `lost(sequence)`: a rank that has ended, or left without finishing operation `sequence`, or -1. May cost a system
///   call.
/// - `finish(sequence)`: this rank has finished so many operations and leaves in good order.
/// - `yields`, if it has one: how often a wait gives its processor to others before it rests; else 2,000 times. None
///   suits a transport that is woken by what arrives.
/// - `absent()`, if it has one: a rank that has not yet come to the operation that this one is in, or -1.
/// - `settle()`, if peers can reach this rank's buffers: called after a fault was told; returns when none is at them.
/// And for any thread: `tell(f)` makes links broken, here and at the peers, as far as they can be reached; `told()` is
/// the first fault that anyone told, or null.
template <class X>
concept transport = requires(X& x, X const& c, std::size_t i, std::uint64_t sequence, fault const& f,
                             typename X::settings s, meeting_of_one& m, time_point until) {
  requires std::default_initializable<typename X::settings>;
  { s.describe() } -> std::same_as<std::string>;
  X(m, s, until);
  { x.lane(i) } -> link<std::byte>;
  { c.lanes() } -> std::same_as<std::size_t>;
  { c.slots() } -> std::same_as<std::size_t>;
  { c.slot_bytes() } -> std::same_as<std::size_t>;
  { c.crowded() } -> std::same_as<bool>;
  { x.rest() } -> std::same_as<void>;
  { x.lost(sequence) } -> std::same_as<int>;
  { x.finish(sequence) } -> std::same_as<void>;
  { x.tell(f) } -> std::same_as<void>;
  { x.told() } -> std::same_as<fault const*>;
};

}  // namespace ringlet
