// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "ringlet/call.hpp"

namespace ringlet {

/// Where some memory lies in what a rank has offered to others, as a value that can be sent to them.
struct position {
  /// The window of memory that others cannot reach, but whose elements they find on the rank's stage, or on its board.
  static constexpr std::uint64_t on_stage = ~std::uint64_t{0}, on_board = on_stage - 1;
  std::uint64_t window = 0;  ///< which of the rank's windows, counted from 1; 0: in none, others cannot reach it
  std::uint64_t offset = 0;  ///< bytes from the window's start
};

/// Bytes that are a short text on a board.
inline constexpr std::size_t short_board_bytes = 48;

/// Ranks that can all load and store each other's memory.
///
/// Contract. They meet in exchanges, one after the other. In an exchange each rank writes n elements, up to
/// `board_bytes()` bytes of them, to its `board<T>(n)`, which is aligned to 16, and `publish(c)`es it.
/// `published(peer)`, which never waits, says whether a peer, or this rank itself, has published the same exchange;
/// from then until this rank publishes the next one, `read<T>(peer, n)`, with the n with which it was written, is what
/// stands on that peer's board. An exchange can carry one short text, of `short_board_bytes` bytes at most, and one
/// longer one: a short one may share a cache line with the word that announces it, a longer one should begin at a line
/// of its own. As long as a board, `digest(peer)` is the digest of the call with which that peer published, and
/// `called(peer)` the call itself, may be read. Having seen that all published, a rank knows that all have come: an
/// exchange of nothing is a barrier.
///
/// `locate(p, bytes)` says where memory of this rank's lies; `at<T>(peer, where)` is what a peer located, as an address
/// here. Located memory may be read and written by others between an exchange before and an exchange after, within
/// `enter()` and `leave()`. `enter()` is false when a fault is known: then stay out. Who has failed waits, before it
/// lets its buffers go, until no peer is within; so whoever is within looks at `broken()` now and then.
///
/// `stage<T>(peer, at)` is memory of that rank's, `at` bytes into a stage that is `stage_bytes()` long and aligned to
/// 128, and which all can reach: a rank writes to its own, and others read it; exchanges order that. With 0 bytes there
/// is none.
///
/// @code
/// template <ringlet::mapped_peers<char> M>
/// void barrier(M& m, ringlet::call const& c) {
///   m.publish(c);
///   for (int peer = 0; peer < m.size(); ++peer)
///     while (!m.published(peer)) {}
/// }
/// @endcode
/// @tparam T the element
template <class M, class T>
concept mapped_peers = requires(M& m, int peer, call const& c, T const* p, std::size_t n, position where) {
  { m.rank() } -> std::same_as<int>;
  { m.size() } -> std::same_as<int>;
  { m.board_bytes() } -> std::same_as<std::size_t>;
  { m.template board<T>(n) } -> std::same_as<T*>;
  { m.publish(c) } -> std::same_as<void>;
  { m.published(peer) } -> std::same_as<bool>;
  { m.template read<T>(peer, n) } -> std::same_as<T const*>;
  { m.digest(peer) } -> std::same_as<std::uint64_t>;
  { m.called(peer) } -> std::same_as<call const&>;
  { m.locate(p, n) } -> std::same_as<position>;
  { m.template at<T>(peer, where) } -> std::same_as<T*>;
  { m.stage_bytes() } -> std::same_as<std::size_t>;
  { m.template stage<T>(peer, n) } -> std::same_as<T*>;
  { m.enter() } -> std::same_as<bool>;
  { m.leave() } -> std::same_as<void>;
  { m.broken() } -> std::same_as<bool>;
};

}  // namespace ringlet
