// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ringlet/call.hpp"
#include "ringlet/link.hpp"

namespace ringlet {

/// How many chords a ring of so many ranks has: the least k with 2^k >= n. In so many steps what each rank brings can
/// come to all.
constexpr int chords_among(int ranks) {
  int k = 0;
  while (std::int64_t{1} << k < ranks) ++k;
  return k;
}
/// For how many ranks one speaks over chord k, itself included: those that the other end lacks.
constexpr std::size_t chord_share(int k, int ranks) {
  std::size_t const behind = std::size_t{1} << k, rest = static_cast<std::size_t>(ranks) - behind;
  return behind < rest ? behind : rest;
}

/// Refinement of a transport: chords, which are links across the ring, for what is so small that the number of steps is
/// all that counts.
///
/// Contract. `chords()` is `chords_among(size)`, or 0 where there are none, on all ranks alike. `chord(k)` is a link
/// beside the lanes: its `next()` leads to the rank 2^k further on, its `prev()` comes from the one 2^k back. A slot of
/// it holds `chord_share(k, size)` times `chord_bytes()` bytes, and there are two at least. It announces calls.
///
/// A rank that goes by the lanes and one that goes by chords would wait for each other: `waiting()`, of the receiving
/// ends of lanes and chords, is what the oldest slice there announces, or null when there is no slice or it announces
/// nothing; it drives nothing.
template <class X>
concept chorded = requires(X& x, int k) {
  { x.chords() } -> std::same_as<int>;
  { x.chord_bytes() } -> std::same_as<std::size_t>;
  { x.chord(k) } -> link<std::byte>;
  requires announcing_link<std::remove_reference_t<decltype(x.chord(k))>>;
  { x.chord(k).prev().waiting() } -> std::same_as<call const*>;
  { x.lane(0).prev().waiting() } -> std::same_as<call const*>;
};

}  // namespace ringlet
