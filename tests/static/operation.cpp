// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The engine asks of its link what the concepts say and nothing else. That it computes what it should: prove.cpp.
#include "ringlet/operation.hpp"

#include <type_traits>

#include "ringlet/reduction.hpp"

namespace {
using namespace ringlet;
using enum collective;

// --- the archetype: a link of two one-way queues that offers only what `link` asks for ---

// A queue of three slices of one int each. What the refinements do to it is counted.
struct pipe {
  int values[3] = {};
  std::size_t committed = 0, released = 0;
  int announced = 0, put = 0, posted = 0;
  call called{};
  slice<int> output{};
};

struct fixed {
  constexpr fixed() = default;
  fixed(fixed const&) = delete;
  fixed& operator=(fixed const&) = delete;
};
struct sender : fixed {
  pipe* to = nullptr;
  template <std::same_as<int> T>
  constexpr slice<T> try_acquire(placement where) {
    if (to->committed - to->released == 3) return {};
    return {&to->values[to->committed % 3], where.count};
  }
  constexpr void commit() { ++to->committed; }
  constexpr bool drained() { return true; }
};
struct receiver : fixed {
  pipe* from = nullptr;
  template <std::same_as<int> T>
  constexpr slice<T> try_peek(placement where) {
    if (from->committed == from->released) return {};
    return {&from->values[from->released % 3], where.count};
  }
  constexpr void release() { ++from->released; }
};
template <class Sender, class Receiver>
struct ends : fixed {
  constexpr Sender& next() { return sender_; }
  constexpr Receiver& prev() { return receiver_; }
  constexpr bool broken() { return broken_; }

  Sender sender_;
  Receiver receiver_;
  bool broken_ = false;
};
using archetype = ends<sender, receiver>;
static_assert(link<archetype, int>);
static_assert(!zero_copy_outbound<sender, int> && !landing_link<archetype, int> && !announcing_link<archetype>);

// --- the same with one refinement each ---

struct zero_copy_sender : sender {
  constexpr bool try_put(slice<int const> from, placement where) {
    slice<int> const there = try_acquire<int>(where);
    if (!there) return false;
    for (std::size_t i = 0; i < where.count; ++i) there.data[i] = from.data[i];
    ++to->put;
    commit();
    return true;
  }
};
static_assert(zero_copy_outbound<zero_copy_sender, int>);

struct landing : archetype {
  constexpr void post(slice<int> output) {
    pipe& from = *prev().from;
    from.output = output;
    // Only the first poll may do so, before the operation has sent anything.
    from.posted += next().to->committed == 0 ? 1 : 100;
  }
};
static_assert(landing_link<landing, int>);

struct announcing_sender : sender {
  constexpr void announce(call const& c) {
    to->called = c;
    ++to->announced;
  }
};
struct announcing_receiver : receiver {
  constexpr call const& announced() { return from->called; }
};
using announcing = ends<announcing_sender, announcing_receiver>;
static_assert(announcing_link<announcing>);

// --- two ranks, polled by turns, oftener than they need ---

template <collective What, class Link = archetype>
struct two_ranks {
  using operation =
      ring_operation<ring_schedule<What>, arithmetic<int, std::conditional_t<reduces(What), sum, keep>>, Link>;

  pipe pipes[2];  // pipes[r] leads away from rank r
  Link links[2];
  int input[2][4] = {{1, 2, 3, 4}, {10, 20, 30, 40}};
  int output[2][4] = {};
  status ended[2] = {};
  call const* other[2] = {};

  // `first` and `second` are what the ranks announce; null for nothing.
  constexpr two_ranks(std::size_t count, call const* first = nullptr, call const* second = nullptr) {
    for (int r : {0, 1}) {
      links[r].next().to = &pipes[r];
      links[r].prev().from = &pipes[1 - r];
    }
    partition const chunks{count, 2};
    operation a({0, 2}, links[0], {input[0], output[0], chunks}, {1, 2}, {{}, 2}, first);
    operation b({1, 2}, links[1], {input[1], output[1], chunks}, {1, 2}, {{}, 2}, second);
    for (int turn = 0; turn < 20; ++turn) {
      if (ended[0] == status::pending) ended[0] = a.poll();
      if (ended[1] == status::pending) ended[1] = b.poll();
    }
    other[0] = a.disagreement();
    other[1] = b.disagreement();
  }
  two_ranks(two_ranks const&) = delete;

  constexpr bool both(status s) const { return ended[0] == s && ended[1] == s; }
  constexpr bool sent(std::size_t slices) const {
    for (pipe const& p : pipes)
      if (p.committed != slices || p.released != slices) return false;
    return true;
  }
};

// It runs with the least that a link can be.
static_assert([] {
  two_ranks<all_reduce> w(4);
  for (int i = 0; i < 4; ++i)
    if (w.output[0][i] != 11 * (i + 1) || w.output[1][i] != 11 * (i + 1)) return false;
  return w.both(status::ready) && w.sent(4) && w.other[0] == nullptr;
}());

// An operation on nothing sends one slice, and it is empty.
template <collective What>
constexpr bool nothing_is_one_slice() {
  two_ranks<What> w(0);
  return w.both(status::ready) && w.sent(1) && w.pipes[0].values[0] == 0 && w.output[0][0] == 0;
}
static_assert(nothing_is_one_slice<reduce_scatter>() && nothing_is_one_slice<all_gather>() &&
              nothing_is_one_slice<all_reduce>());

// --- refinements are used when they are there ---

// An all-gather sends nothing that does not stand in the caller's memory.
static_assert([] {
  two_ranks<all_gather, ends<zero_copy_sender, receiver>> w(4);
  return w.both(status::ready) && w.sent(2) && w.pipes[0].put == 2 && w.pipes[1].put == 2;
}());

// An output is posted once and before anything is sent; where it is not the whole one, nothing may land.
static_assert([] {
  two_ranks<all_gather, landing> w(4);
  slice<int> const open = w.pipes[1].output;  // by rank 0, for what comes from rank 1
  return w.both(status::ready) && w.pipes[1].posted == 1 && open.data == w.output[0] && open.count == 4;
}());
static_assert([] {
  two_ranks<reduce_scatter, landing> w(4);
  return w.both(status::ready) && w.pipes[1].posted == 1 && !w.pipes[1].output;
}());

// Who receives nothing opens nothing: the root of a broadcast.
static_assert([] {
  two_ranks<broadcast, landing> w(4);
  return w.both(status::ready) && !w.pipes[1].output && w.pipes[0].output.data == w.output[1];
}());

// --- disagreement ---

// Both fail, and each knows what the other called.
constexpr bool found_out(call first, call second, std::size_t count = 2) {
  two_ranks<all_reduce, announcing> w(count, &first, &second);
  return w.both(status::failed) && w.other[0] != nullptr && *w.other[0] == second && w.other[1] != nullptr &&
         *w.other[1] == first;
}
constexpr call right{.sequence = 1, .count = 2, .element = 3, .reduction = 4, .what = all_reduce};
static_assert(found_out(right, {.sequence = 2, .count = 2, .element = 3, .reduction = 4, .what = all_reduce}));
static_assert(found_out(right, {.sequence = 1, .count = 9, .element = 3, .reduction = 4, .what = all_reduce}));
static_assert(found_out(right, {.sequence = 1, .count = 2, .element = 9, .reduction = 4, .what = all_reduce}));
static_assert(found_out(right, {.sequence = 1, .count = 2, .element = 3, .reduction = 9, .what = all_reduce}));
static_assert(found_out(right, {.sequence = 1, .count = 2, .element = 3, .reduction = 4, .what = barrier}));
// On nothing too: that is what its one slice is for.
static_assert(found_out({.count = 0, .what = all_reduce}, {.count = 0, .what = all_gather}, 0));

// Ranks that agree announce with their first slice only, and look at the first that comes.
static_assert([] {
  call other_name = right;
  other_name.element_name[0] = 'x';  // names do not decide
  two_ranks<all_reduce, announcing> w(4, &right, &other_name);
  return w.both(status::ready) && w.pipes[0].announced == 1 && w.pipes[1].announced == 1 && w.other[0] == nullptr;
}());
// Without a call nothing is announced, and nothing expected.
static_assert([] {
  two_ranks<all_reduce, announcing> w(4);
  return w.both(status::ready) && w.pipes[0].announced == 0;
}());

// --- waiting ---

// A rank whose neighbour does not come waits; if the link is broken it fails, and nobody disagreed.
static_assert([] {
  pipe out, in;
  archetype l;
  l.next().to = &out;
  l.prev().from = &in;
  int input[2] = {}, output[2] = {};
  ring_operation<ring_schedule<all_reduce>, arithmetic<int, sum>, archetype> waits({0, 2}, l, {input, output, {2, 2}},
                                                                                   {1, 1}, {{}, 2});
  if (waits.poll() != status::pending || waits.step_reached() != 1 || out.committed != 1) return false;
  if (waits.poll() != status::pending || out.committed != 1) return false;
  l.broken_ = true;
  return waits.poll() == status::failed && waits.disagreement() == nullptr;
}());

// --- with a number of ranks known while compiling, so are its steps ---

static_assert(detail::extent_of<ring_schedule<all_reduce, 4>> == 4);
static_assert(detail::extent_of<ring_schedule<all_reduce>> == dynamic_size);

// --- neighbours may be writing to what an operation describes: it stays where it is ---

using operation = two_ranks<all_reduce>::operation;
static_assert(!std::is_copy_constructible_v<operation> && !std::is_move_constructible_v<operation>);

}  // namespace
