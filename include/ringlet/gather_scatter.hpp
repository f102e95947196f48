// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <iterator>
#include <type_traits>

#include "ringlet/collective_operation.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/error.hpp"
#include "ringlet/point_to_point.hpp"
#include "ringlet/slice.hpp"

namespace ringlet {

namespace detail {

inline void check_count(char const* what, std::size_t given, std::size_t expected) {
  if (given != expected)
    throw error(errc::invalid_argument, words("%s has %zu elements, expected %zu", what, given, expected));
}
// At the root: a message for each other rank and its chunk, all at once, and then `own`, for what is the root's.
template <class X, int Size, class T, class Own>
void with_all_others(communicator<X, Size>& comm, T* whole, partition chunks, bool sends, Own own) {
  std::deque<message_operation<X, T>> messages;
  for (int step = 1; step < comm.size(); ++step) {
    int const peer = (comm.rank() + step) % comm.size();
    auto const p = static_cast<std::size_t>(peer);
    messages.emplace_back(comm.session(), whole + chunks.offset(p), chunks.length(p), peer, sends);
  }
  own();
  for (auto& m : messages) m.wait();
}
template <class T>
void copy_own(T const* from, T* to, std::size_t count) {
  if (from != to) std::copy_n(from, count, to);
}

}  // namespace detail

/// Collects all ranks' inputs at the root, one after the other: messages from each rank to the root. Chunks are those
/// of `comm.chunks(count)`. It takes its place among the messages between those ranks, not in the order of collectives.
/// @param input `comm.chunks(count).length(rank)` elements
/// @param output at the root: `count` elements; the root's input may be its own chunk of it. Elsewhere it is not looked
///   at
/// @param root the rank that gets them, the same on all ranks
/// @throws error(errc::invalid_argument) when the buffers do not fit or there is no such root, before anything is sent
/// @throws error also as `send` and `recv`
template <class X, int Size, contiguous In, contiguous Out>
void gather(communicator<X, Size>& comm, In const& input, Out&& output, int root) {
  static_assert(pairwise<X>, "ringlet: this transport has no links between any two ranks: see `pairwise`");
  using T = element_of<Out>;
  static_assert(std::is_same_v<T, element_of<In const>>, "ringlet: input and output have different elements");
  detail::check_root(root, comm.size());
  if (comm.rank() != root) return send(comm, input, root);
  partition const chunks = comm.chunks(std::size(output));
  auto const me = static_cast<std::size_t>(root);
  detail::check_count("the root's input", std::size(input), chunks.length(me));
  detail::with_all_others(comm, std::data(output), chunks, false, [&] {
    detail::copy_own(std::data(input), std::data(output) + chunks.offset(me), chunks.length(me));
  });
}

/// Hands each rank its chunk of the root's input: messages from the root to each rank, as in `gather`.
/// @param input at the root: `count` elements; is not written. Elsewhere it is not looked at
/// @param output `comm.chunks(count).length(rank)` elements; the root's may be its own chunk of the input
/// @param root the rank whose input it is, the same on all ranks
/// @throws error as `gather`
template <class X, int Size, contiguous In, contiguous Out>
void scatter(communicator<X, Size>& comm, In const& input, Out&& output, int root) {
  static_assert(pairwise<X>, "ringlet: this transport has no links between any two ranks: see `pairwise`");
  using T = element_of<Out>;
  static_assert(std::is_same_v<T, element_of<In const>>, "ringlet: input and output have different elements");
  detail::check_root(root, comm.size());
  if (comm.rank() != root) return recv(comm, output, root);
  partition const chunks = comm.chunks(std::size(input));
  auto const me = static_cast<std::size_t>(root);
  detail::check_count("the root's output", std::size(output), chunks.length(me));
  detail::with_all_others(comm, const_cast<T*>(std::data(input)), chunks, true, [&] {  // what is sent is not written
    detail::copy_own(std::data(input) + chunks.offset(me), std::data(output), chunks.length(me));
  });
}

}  // namespace ringlet
