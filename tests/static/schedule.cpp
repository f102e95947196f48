// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/schedule.hpp"

#include <utility>

using namespace ringlet;
using enum collective;

// --- what collectives take and leave ---

static_assert(whole_input(reduce_scatter) && !whole_input(all_gather) && whole_input(all_reduce));
static_assert(!whole_output(reduce_scatter) && whole_output(all_gather) && whole_output(all_reduce));

// --- the ring, for 1 to 16 ranks ---

constexpr int most = 16;

template <class Holds>
constexpr bool for_all(Holds holds) {
  for (int n = 1; n <= most; ++n)
    for (int rank = 0; rank < n; ++rank)
      if (!holds(rank, n)) return false;
  return true;
}
template <class Holds>
constexpr bool for_all_steps(Holds holds) {
  return for_all([holds](int rank, int n) {
    return holds(ring_schedule<reduce_scatter>{rank, n}) && holds(ring_schedule<all_gather>{rank, n}) &&
           holds(ring_schedule<all_reduce>{rank, n});
  });
}

// A rank works on a chunk that there is, sends in each step but the last, and receives in each but the first.
static_assert(for_all_steps([](auto s) {
  for (int k = 0; k < s.steps(); ++k) {
    auto const [does, chunk] = s[k];
    if (chunk < 0 || chunk >= s.size() || does.receive != (k > 0) || does.send != (k < s.steps() - 1)) return false;
    if (does.reduce && !does.receive) return false;  // with what?
  }
  return true;
}));

// The first step from k on that receives, or that sends; or the end.
template <schedule S>
constexpr int find(S s, int k, bool action::*what) {
  while (k < s.steps() && !(s[k].does.*what)) ++k;
  return k;
}
// What a rank sends at its k-th send is what the next receives at its k-th receive, to the last.
static_assert(for_all_steps([](auto s) {
  decltype(s) const next{(s.rank + 1) % s.size(), s.size()};
  int from = find(s, 0, &action::send), to = find(next, 0, &action::receive);
  while (from < s.steps() && to < next.steps()) {
    if (s[from].chunk != next[to].chunk) return false;
    from = find(s, from + 1, &action::send);
    to = find(next, to + 1, &action::receive);
  }
  return from == s.steps() && to == next.steps();
}));

// A chunk's last reduction is at its owner, who keeps it at once. An all-gather reduces nothing.
template <collective What>
constexpr bool owners_complete() {
  for (int n = 2; n <= most; ++n) {
    int last[most] = {};  // the rank that was the last to add to a chunk
    bool kept[most] = {};
    for (int k = 0; k < ring_schedule<What>{0, n}.steps(); ++k)
      for (int rank = 0; rank < n; ++rank)
        if (auto const [does, chunk] = ring_schedule<What>{rank, n}[k]; does.reduce) {
          last[chunk] = rank;
          kept[chunk] = does.keep;
        }
    for (int chunk = 0; chunk < n; ++chunk)
      if (last[chunk] != chunk || !kept[chunk]) return false;
  }
  return true;
}
static_assert(owners_complete<reduce_scatter>() && owners_complete<all_reduce>());
static_assert(for_all([](int rank, int n) {
  for (int k = 0; k < n; ++k)
    if (ring_schedule<all_gather>{rank, n}[k].does.reduce) return false;
  return true;
}));

// A rank keeps each chunk of its output once: all of them, or its own.
static_assert(for_all_steps([](auto s) {
  int kept[most] = {};
  for (int k = 0; k < s.steps(); ++k) kept[s[k].chunk] += s[k].does.keep;
  for (int chunk = 0; chunk < s.size(); ++chunk)
    if (kept[chunk] != (whole_output(s.does) || chunk == s.rank)) return false;
  return true;
}));

// reduce_scatter followed by all_gather is all_reduce: the last step of one and the first of the other are one step.
static_assert(for_all([](int rank, int n) {
  ring_schedule<reduce_scatter> const first{rank, n};
  ring_schedule<all_gather> const second{rank, n};
  ring_schedule<all_reduce> const both{rank, n};
  int const joint = first.steps() - 1;
  if (both.steps() != joint + second.steps() || first[joint].chunk != second[0].chunk) return false;
  for (int k = 0; k < both.steps(); ++k) {
    step expected = k <= joint ? first[k] : second[k - joint];
    if (k == joint) expected.does.send = second[0].does.send;
    if (both[k] != expected) return false;
  }
  return true;
}));

// --- with a root, which is rank 0 ---

// Each rank but one at an end sends every chunk once, in order, and receives every chunk once, from its neighbour.
template <collective What>
constexpr bool is_a_pipeline() {
  int const begins = reduces(What) ? 1 : 0;
  return for_all([=](int rank, int n) {
    bool const first = rank == begins % n, last = rank == (begins + n - 1) % n;
    ring_schedule<What> const s{rank, n};
    for (int k = 0; k < n; ++k) {
      bool const keeps = What == broadcast || last;
      if (s[k] != step{{!first, reduces(What) && !first, keeps, !last}, k}) return false;
    }
    return s.steps() == n;
  });
}
static_assert(is_a_pipeline<broadcast>() && is_a_pipeline<reduce>());
static_assert(rooted(broadcast) && rooted(reduce) && !rooted(all_reduce) && !rooted(barrier));
static_assert(reduces(reduce) && reduces(all_reduce) && reduces(reduce_scatter) && !reduces(all_gather) &&
              !reduces(broadcast));

// --- a size known while compiling changes nothing ---

template <collective What, int N>
constexpr bool same_when_known() {
  using known = ring_schedule<What, N>;
  static_assert(known::extent == N && ring_schedule<What>::extent == dynamic_size);
  for (int rank = 0; rank < N; ++rank) {
    known const s{rank, N};
    ring_schedule<What> const expected{rank, N};
    if (s.size() != N || s.steps() != expected.steps()) return false;
    for (int k = 0; k < s.steps(); ++k)
      if (s[k] != expected[k]) return false;
  }
  return true;
}
static_assert([]<int... Less>(std::integer_sequence<int, Less...>) {
  return ((same_when_known<reduce_scatter, Less + 1>() && same_when_known<all_gather, Less + 1>() &&
           same_when_known<all_reduce, Less + 1>() && same_when_known<broadcast, Less + 1>() &&
           same_when_known<reduce, Less + 1>()) &&
          ...);
}(std::make_integer_sequence<int, most>{}));

// --- the concept ---

static_assert(schedule<ring_schedule<all_reduce>> && schedule<ring_schedule<all_gather, 4>>);

struct alone {  // the contract's minimal model
  static constexpr collective does = all_reduce;
  int rank, size;
  constexpr int steps() const { return 1; }
  constexpr step operator[](int) const { return {{false, false, true, false}, 0}; }
};
static_assert(schedule<alone>);

template <class Does>
struct does_it {
  static constexpr Does does{};
  int rank, size;
  int steps() const;
  step operator[](int) const;
};
struct does_not_say {
  int rank, size;
  int steps() const;
  step operator[](int) const;
};
struct of_nobody {
  static constexpr collective does = all_reduce;
  int steps() const;
  step operator[](int) const;
};
struct without_steps {
  static constexpr collective does = all_reduce;
  int rank, size;
  step operator[](int) const;
};
struct steps_are_not_int {
  static constexpr collective does = all_reduce;
  int rank, size;
  long steps() const;
  step operator[](int) const;
};
struct without_index {
  static constexpr collective does = all_reduce;
  int rank, size;
  int steps() const;
};
struct index_gives_an_action {
  static constexpr collective does = all_reduce;
  int rank, size;
  int steps() const;
  action operator[](int) const;
};
struct has_a_memory {  // a generator: asked for a step twice, it would give two
  static constexpr collective does = all_reduce;
  int rank, size;
  int steps() const;
  step operator[](int);
};
static_assert(schedule<does_it<collective>> && !schedule<does_it<int>> && !schedule<does_not_say>);
static_assert(!schedule<of_nobody> && !schedule<without_steps> && !schedule<steps_are_not_int>);
static_assert(!schedule<without_index> && !schedule<index_gives_an_action> && !schedule<has_a_memory>);
