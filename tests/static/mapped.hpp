// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Mapped peers for the compiler, and a run of an operation among them.
#include "ringlet/direct.hpp"
#include "ringlet/prove.hpp"
#include "ringlet/rooted.hpp"

namespace {
using namespace ringlet;
using enum collective;
using symbolic::array;
using symbolic::setting;
using symbolic::verdict;

// Mapped peers for the compiler: boards of elements and boards of positions, two of each, since exchanges alternate.
template <class T>
struct meeting_place {
  std::size_t n, count;
  array<T> boards, stages;
  array<position> positions;
  array<std::size_t> published;
  array<call> calls;
  constexpr meeting_place(std::size_t size, std::size_t elements)
      : n(size),
        count(elements),
        boards(2 * size * elements),
        stages(size * stage_elements()),
        positions(4 * size),
        published(size),
        calls(size) {}
  // Two halves with one row of 128 bytes for each chunk.
  constexpr std::size_t stage_elements() const { return 2 * n * 128 / sizeof(T); }
};
template <class T>
struct peers {
  meeting_place<T>* at_;
  int rank_;
  T *in, *out;               // of all ranks
  bool hides_in, hides_out;  // from the others
  std::size_t exchange = 0;

  constexpr int rank() const { return rank_; }
  constexpr int size() const { return static_cast<int>(at_->n); }
  constexpr std::size_t board_bytes() const { return at_->count * sizeof(T); }
  constexpr std::size_t slot(int peer, std::size_t e) const {
    return (e % 2) * at_->n + static_cast<std::size_t>(peer);
  }
  template <class U>
  constexpr U* of(int peer, std::size_t e) const {
    if constexpr (std::is_same_v<U, position>)
      return at_->positions.data() + 2 * slot(peer, e);
    else
      return at_->boards.data() + at_->count * slot(peer, e);
  }
  template <class U>
  constexpr U* board(std::size_t) {
    return of<U>(rank_, exchange + 1);
  }
  constexpr void publish(call const& c) {
    at_->calls[static_cast<std::size_t>(rank_)] = c;
    at_->published[static_cast<std::size_t>(rank_)] = ++exchange;
  }
  constexpr bool published(int peer) const { return at_->published[static_cast<std::size_t>(peer)] >= exchange; }
  template <class U>
  constexpr U const* read(int peer, std::size_t) {
    if (!published(peer)) throw "a board is read that is not published";
    return of<U>(peer, exchange);
  }
  constexpr std::uint64_t digest(int peer) { return ringlet::digest(called(peer)); }
  constexpr call const& called(int peer) { return at_->calls[static_cast<std::size_t>(peer)]; }
  // Buffers begin at a rank's own place, or at its own chunk of it.
  constexpr position locate(T const* p, std::size_t) {
    std::size_t const begin = static_cast<std::size_t>(rank_) * at_->count;
    for (std::size_t i : {begin, begin + partition{at_->count, at_->n}.offset(static_cast<std::size_t>(rank_))}) {
      if (p == in + i) return {hides_in ? 0U : 1U, i};
      if (p == out + i) return {hides_out ? 0U : 2U, i};
    }
    return {};
  }
  constexpr std::size_t stage_bytes() const { return at_->stage_elements() * sizeof(T); }
  template <class U>
  constexpr U* stage(int peer, std::size_t at) const {
    return at_->stages.data() + static_cast<std::size_t>(peer) * at_->stage_elements() + at / sizeof(T);
  }
  template <class U>
  constexpr U* at(int, position where) {
    if (where.window != 1 && where.window != 2) throw "memory is used that nobody can reach";
    return (where.window == 1 ? in : out) + where.offset;
  }
  constexpr bool enter() { return true; }
  constexpr void leave() {}
  constexpr bool broken() const { return false; }
};
static_assert(mapped_peers<peers<int>, int>);

// Whose memory is out of reach: nobody's, everybody's, that of some, only what they read, only what they write.
enum class hidden { nothing, everything, of_odd_ranks, inputs, outputs };

template <collective What, class Arithmetic, class Peers>
struct operation_of : std::type_identity<direct_operation<What, Arithmetic, Peers>> {};
template <collective What, class Arithmetic, class Peers>
  requires(rooted(What))
struct operation_of<What, Arithmetic, Peers> : std::type_identity<rooted_operation<What, Arithmetic, Peers>> {};

// Runs an operation among n ranks; then `look(output of a rank, rank)` must hold for all. Or all must say that a ring
// is to follow.
template <collective What, class Op, class T, class Fill, class Look>
constexpr bool direct(int size, std::size_t count, bool in_place, selection select, hidden out_of_reach, Fill fill,
                      Look look, int root = 0, bool ring_follows = false) {
  auto const n = static_cast<std::size_t>(size);
  partition const chunks{count, n};
  // One element more, so that even empty buffers have addresses that differ.
  array<T> in(n * count + 1), out(n * count + 1);
  meeting_place<T> place(n, count);
  array<peers<T>> all(n);
  using operation = typename operation_of<What, arithmetic<T, Op>, peers<T>>::type;
  array<operation*> ops(n);
  array<bool> ready(n);
  call const c{.count = count, .what = What};
  T* const results = in_place ? in.data() : out.data();
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t i = 0; i < count; ++i) in[r * count + i] = fill(r, i);
    bool const all_of_it = out_of_reach == hidden::everything || (out_of_reach == hidden::of_odd_ranks && r % 2 != 0);
    all[r] = {&place,
              static_cast<int>(r),
              in.data(),
              out.data(),
              all_of_it || out_of_reach == hidden::inputs,
              all_of_it || out_of_reach == hidden::outputs};
  }
  for (std::size_t r = 0; r < n; ++r) {
    std::size_t const mine = chunks.offset(r);
    buffers<T> const at{in.data() + r * count + (whole_input(What) ? 0 : mine),
                        results + r * count + (whole_output(What) ? 0 : mine), chunks};
    if constexpr (rooted(What))
      ops[r] = new operation(all[r], at, arithmetic<T, Op>(Op{}, size), c, select, root);
    else
      ops[r] = new operation(all[r], at, arithmetic<T, Op>(Op{}, size), c, select);
  }
  bool good = true;
  for (std::size_t sweep = 0; sweep < 4 + chunks.longest() * sizeof(T) / 128; ++sweep)
    for (std::size_t r = n; r-- > 0;) {
      if (ready[r]) continue;
      auto const moves = ops[r]->moves();
      std::size_t const exchange = all[r].exchange;
      if (ops[r]->poll() == status::ready) {
        ready[r] = true;
        good =
            good && (ops[r]->route() == route::ring) == ring_follows && (ring_follows || look(results + r * count, r));
        for (std::size_t i = r * count; i < (r + 1) * count; ++i) in[i] = results[i] = T{};  // its caller's again
      } else {
        good = good && (all[r].exchange == exchange || ops[r]->moves() != moves);
      }
    }
  for (std::size_t r = 0; r < n; ++r) {
    good = good && ready[r];
    delete ops[r];
  }
  return good;
}

}  // namespace
