// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

#include "ringlet/call.hpp"
#include "ringlet/config.hpp"
#include "ringlet/slice.hpp"

namespace ringlet {

/// Where a slice comes to rest at its receiver.
struct placement {
  std::size_t offset;  ///< elements from the start of the receiver's output; means something only if `final`
  std::size_t count;   ///< elements in the slice; 0 is possible
  bool final;          ///< the value needs no more work: a link that can may land it in the output itself
};

/// The sending end of a bounded one-way queue of slices to the next rank.
///
/// Contract. One thread (or one worker, through its leader) uses an end. `try_acquire<T>(where)` gives a place for
/// `where.count` elements, or the null slice when there is no credit: it never waits, and asking again before `commit`
/// gives the same place. `commit()` publishes what was written there. The receiver meets slices in the order of their
/// commits. `drained()` says that nothing committed here needs this rank any more: true at once where memory is shared,
/// later where something has yet to leave.
/// @tparam T the element, trivially copyable; different slices may hold different types
template <class End, class T>
concept outbound = requires(End& end, placement where) {
  { end.template try_acquire<T>(where) } -> std::same_as<slice<T>>;
  { end.commit() } -> std::same_as<void>;
  { end.drained() } -> std::same_as<bool>;
};

/// The receiving end of a bounded one-way queue of slices from the previous rank.
///
/// Contract. `try_peek<T>(where)` gives the oldest slice that has arrived and was not released, or the null slice: it
/// never waits, and asking again gives the same slice. `where` is what this rank expects; it equals the sender's.
/// `release()` gives the slice's credit back to the sender; the memory is the sender's again from then on.
template <class End, class T>
concept inbound = requires(End& end, placement where) {
  { end.template try_peek<T>(where) } -> std::same_as<slice<T>>;
  { end.release() } -> std::same_as<void>;
};

/// Both ends that a rank has on a ring. `broken()` says that waiting is useless: a peer is lost or has given up. It is
/// asked after every poll in vain and at no other time, so it is also the place to push on what has yet to leave.
///
/// A minimal model is in `examples/07_own_transport.hpp`; the smallest, a queue for the compiler, is in `prove.hpp`.
template <class L, class T>
concept link = requires(L& l) {
  { l.next() } -> outbound<T>;
  { l.prev() } -> inbound<T>;
  { l.broken() } -> std::same_as<bool>;
};

/// Refinement: a sending end that can send straight out of the caller's memory (RDMA, copy engines).
/// `try_put(from, where)` takes a slice whole, commit included, or says false for want of credit. The memory must stay
/// as it is until `drained()`.
template <class End, class T>
concept zero_copy_outbound = outbound<End, T> && requires(End& end, slice<T const> from, placement where) {
  { end.try_put(from, where) } -> std::same_as<bool>;
};

/// Refinement: a link over which final slices may land in the receiver's output. `post(output)` opens the output of the
/// operation that begins; it is called once an operation, before anything else of it. A sender must not be given a
/// place in an output that was not posted: in an all-gather its first slice would arrive before the receiver has come.
template <class L, class T>
concept landing_link = link<L, T> && requires(L& l, slice<T> output) {
  { l.post(output) } -> std::same_as<void>;
};

/// Refinement: a link that carries, with the first slice of an operation, what its sender called, so that ranks that
/// call different things find out. `announce(c)` is called between the first `try_acquire` and its `commit`;
/// `announced()`, after the first successful `try_peek`, gives what came with that slice.
template <class L>
concept announcing_link = requires(L& l, call const& c) {
  { l.next().announce(c) } -> std::same_as<void>;
  { l.prev().announced() } -> std::convertible_to<call const&>;
};

}  // namespace ringlet
