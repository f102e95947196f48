// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ringlet/call.hpp"
#include "ringlet/direct.hpp"
#include "ringlet/mapped_peers.hpp"
#include "ringlet/operation.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/schedule.hpp"
#include "ringlet/slice.hpp"

namespace ringlet {

/// The proof is a transport: all ranks of the engine that ships, run by the compiler, over queues whose elements say
/// who has contributed to them. What holds here holds for any data, since the engine never looks at an element.
namespace symbolic {

/// An element: the set of ranks that have contributed to it, and whether one has done so twice. Up to 64 ranks.
struct contributors {
  std::uint64_t who = 0;
  bool twice = false;
};

/// The operator on them.
struct join {
  using commutative_and_associative = std::true_type;
  constexpr contributors operator()(contributors a, contributors b) const {
    return {a.who | b.who, a.twice || b.twice || (a.who & b.who) != 0};
  }
};

/// What became of a run.
enum class verdict : std::uint8_t {
  correct,   ///< every element complete at the moment its rank said ready, nothing left in a queue, no input written
  wrong,     ///< something of that does not hold
  deadlock,  ///< no rank could go on
  early,     ///< a slice landed in an output that had not been posted
};

/// What a run is like.
struct setting {
  std::size_t count = 0;  ///< elements of the whole buffer
  std::size_t slots = 3, depth = 2, width = 2, lanes = 1;
  bool in_place = false;
  bool landing = false;  ///< final slices land in the neighbour's output
  bool eager = false;    ///< a link at fault: lands without waiting for the neighbour to post
  int order = 0;         ///< of polls: 0 by rank, 1 backwards, 2 turning, 3 rank 0 only when nobody else can go on
};

/// An array that a constant expression can make with a length that is not constant. Constant like a pointer: its
/// elements are not.
template <class T>
class array {
 public:
  constexpr explicit array(std::size_t n) : data_(new T[n]{}), size_(n) {}
  array(array const&) = delete;
  constexpr ~array() { delete[] data_; }
  constexpr T& operator[](std::size_t i) const { return data_[i]; }
  constexpr T* data() const { return data_; }
  constexpr std::size_t size() const { return size_; }

 private:
  T* data_;
  std::size_t size_;
};

/// A bounded queue between two ranks, both ends in one.
/// @tparam T the element
/// @tparam ZeroCopy also takes slices straight from the sender's memory: they are read as late as possible, when the
/// receiver asks, so that a sender who lets go too early is found out
template <class T, bool ZeroCopy>
class queue {
 public:
  constexpr queue(setting const& s)
      : slots_(s.slots),
        width_(s.width),
        landing_(s.landing),
        eager_(s.eager),
        store_(s.slots * s.width),
        sent_(s.slots) {}

  template <class>
  constexpr slice<T> try_acquire(placement where) {
    if (full() || not_posted(where)) return {};
    sent_[tail_ % slots_] = {where, nullptr};
    return place(tail_, where);
  }
  constexpr void commit() { ++tail_; }
  constexpr bool try_put(slice<T const> from, placement where) requires ZeroCopy {
    if (full() || not_posted(where)) return false;
    sent_[tail_ % slots_] = {where, from.data};
    ++tail_;
    return true;
  }
  constexpr bool drained() const {
    for (std::size_t k = head_; k != tail_; ++k)
      if (sent_[k % slots_].from != nullptr) return false;
    return true;
  }

  template <class>
  constexpr slice<T> try_peek(placement where) {
    if (head_ == tail_) return {};
    message& m = sent_[head_ % slots_];
    if (m.where.count != where.count || m.where.final != where.final ||
        (where.final && m.where.offset != where.offset)) {
      differ_ = true;  // the receiver expects another slice than the one that was sent
      return {};
    }
    slice<T> const here = place(head_, where);
    if (m.from != nullptr)
      for (std::size_t i = 0; i < where.count; ++i) here.data[i] = m.from[i];
    m.from = nullptr;
    return here;
  }
  constexpr void release() { ++head_; }

  constexpr void post(slice<T> output) { home_ = output.data; }
  /// Where an output would be: only a link at fault uses it before it is posted.
  constexpr void know(T* output) { known_ = output; }

  constexpr bool early() const { return early_; }
  constexpr bool differ() const { return differ_; }
  constexpr bool empty() const { return head_ == tail_; }
  constexpr std::size_t moves() const { return head_ + tail_; }

 private:
  struct message {
    placement where{};
    T const* from = nullptr;
  };
  constexpr bool full() const { return tail_ - head_ == slots_; }
  constexpr bool not_posted(placement where) {
    if (!landing_ || !where.final || home_ != nullptr) return false;
    early_ = early_ || eager_;
    return !eager_;
  }
  constexpr slice<T> place(std::size_t k, placement where) {
    if (landing_ && where.final) return {(home_ != nullptr ? home_ : known_) + where.offset, where.count};
    return {store_.data() + (k % slots_) * width_, where.count};
  }

  std::size_t slots_, width_, head_ = 0, tail_ = 0;
  bool landing_, eager_, early_ = false, differ_ = false;
  T *home_ = nullptr, *known_ = nullptr;
  array<T> store_;
  array<message> sent_;
};

/// Two ends of two queues.
template <class T, bool ZeroCopy>
struct link {
  queue<T, ZeroCopy>*next_, *prev_;
  constexpr queue<T, ZeroCopy>& next() { return *next_; }
  constexpr queue<T, ZeroCopy>& prev() { return *prev_; }
  constexpr bool broken() const { return prev_->differ(); }
  constexpr void post(slice<T> output) { prev_->post(output); }
};

/// A world of n ranks with buffers, links, and one ring operation a rank and lane.
template <schedule S, class T, class Op, bool ZeroCopy>
class world {
  using link_type = link<T, ZeroCopy>;
  using queue_type = queue<T, ZeroCopy>;
  using operation = ring_operation<S, arithmetic<T, Op>, link_type>;

 public:
  /// @param fill gives the input: `fill(rank, index in the whole buffer)`
  template <class Fill>
  constexpr world(int n, setting const& s, Fill fill)
      : n_(static_cast<std::size_t>(n)),
        how_(s),
        chunks_{s.count, n_},
        in_(n_ * s.count),
        out_(n_ * s.count),
        queues_(n_ * s.lanes),
        links_(n_ * s.lanes),
        operations_(n_ * s.lanes),
        ready_(n_ * s.lanes) {
    for (std::size_t r = 0; r < n_; ++r) {
      for (std::size_t i = 0; i < s.count; ++i) input(r)[i] = fill(r, i);
      for (std::size_t l = 0; l < s.lanes; ++l) queues_[r * s.lanes + l] = new queue_type(s);
    }
    for (std::size_t r = 0; r < n_; ++r)
      for (std::size_t l = 0; l < s.lanes; ++l) {
        std::size_t const me = r * s.lanes + l, prev = (r + n_ - 1) % n_ * s.lanes + l;
        queues_[prev]->know(output(r));
        links_[me] = {queues_[me], queues_[prev]};
        // Buffers of one chunk are that chunk's place in the whole one: in place, as the collectives define it.
        std::size_t const mine = chunks_.offset(r);
        buffers<T> at{input(r) + (whole_input(S::does) ? 0 : mine), output(r) + (whole_output(S::does) ? 0 : mine),
                      chunks_, l, s.lanes};
        operations_[me] = new operation(S{static_cast<int>(r), n}, links_[me], at, pipelining{s.width, s.depth},
                                        arithmetic<T, Op>(Op{}, n));
      }
  }
  constexpr ~world() {
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      delete operations_[i];
      delete queues_[i];
    }
  }

  /// Polls until all are ready. `complete(rank)` is asked at the moment a rank is.
  template <class Complete>
  constexpr verdict run(Complete complete) {
    bool correct = true, hold = how_.order == 3;
    std::size_t left = n_;
    for (std::size_t sweep = 0; left > 0; ++sweep) {
      std::size_t const before = moves() + n_ - left;
      for (std::size_t q = 0; q < n_; ++q) {
        std::size_t const r = how_.order == 0 || how_.order == 3 ? q : (n_ - 1 - q + sweep * (how_.order == 2)) % n_;
        if ((hold && r == 0 && n_ > 1) || !poll(r)) continue;
        --left;
        correct = correct && complete(r);
      }
      for (std::size_t i = 0; i < queues_.size(); ++i) {
        if (queues_[i]->early()) return verdict::early;
        if (queues_[i]->differ()) return verdict::wrong;
      }
      if (before == moves() + n_ - left) {
        if (!hold) return verdict::deadlock;
        hold = false;
      } else {
        hold = how_.order == 3;
      }
    }
    for (std::size_t i = 0; i < queues_.size(); ++i) correct = correct && queues_[i]->empty();
    return correct ? verdict::correct : verdict::wrong;
  }

  constexpr T* input(std::size_t rank) { return in_.data() + rank * how_.count; }
  constexpr T* output(std::size_t rank) { return (how_.in_place ? in_ : out_).data() + rank * how_.count; }
  constexpr partition chunks() const { return chunks_; }

 private:
  // True at the moment when the last of a rank's lanes becomes ready.
  constexpr bool poll(std::size_t rank) {
    bool all = true, before = true;
    for (std::size_t i = rank * how_.lanes; i < (rank + 1) * how_.lanes; ++i) {
      before = before && ready_[i];
      ready_[i] = ready_[i] || operations_[i]->poll() == status::ready;
      all = all && ready_[i];
    }
    return all && !before;
  }
  constexpr std::size_t moves() const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < queues_.size(); ++i) sum += queues_[i]->moves();
    return sum;
  }
  std::size_t n_;
  setting how_;
  partition chunks_;
  array<T> in_, out_;
  array<queue_type*> queues_;
  array<link_type> links_;
  array<operation*> operations_;
  array<bool> ready_;
};

/// Who must be in chunk `c` of an output: everybody for a reduction, the chunk's owner for an all-gather, the root
/// (rank 0) for a broadcast.
template <collective What>
constexpr std::uint64_t expected(int n, std::size_t c) {
  if (!reduces(What)) return std::uint64_t{1} << (What == collective::broadcast ? 0 : c);
  return n == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
}

/// Runs a schedule among n ranks, 1 to 64, and looks at everything. A rank's memory is spoilt once it has said ready:
/// whoever still reads it or writes to it is found out.
/// @tparam S the schedule
/// @tparam ZeroCopy whether links take slices straight from the sender's memory
template <schedule S, bool ZeroCopy = false>
constexpr verdict check(int n, setting const& s) {
  for (int r = 0; r < n; ++r)
    for (int k = 0; k < S{r, n}.steps(); ++k)
      if (step const at = S{r, n}[k]; at.chunk < 0 || at.chunk >= n) return verdict::wrong;
  world<S, contributors, join, ZeroCopy> w(n, s, [](std::size_t r, std::size_t) {
    return contributors{std::uint64_t{1} << r, false};
  });
  verdict const v = w.run([&](std::size_t r) {
    std::uint64_t const own = std::uint64_t{1} << r;
    for (std::size_t c = 0; c < w.chunks().parts; ++c) {
      // Chunks that are not mine, as in a reduce-scatter, keep what they held.
      bool const mine = S::does == collective::reduce ? r == 0 : whole_output(S::does) || c == r;
      std::uint64_t const who = mine ? expected<S::does>(n, c) : s.in_place ? own : 0;
      for (std::size_t i = w.chunks().offset(c), end = i + w.chunks().length(c); i < end; ++i) {
        if (w.output(r)[i].who != who || w.output(r)[i].twice) return false;
        if (!s.in_place && w.input(r)[i].who != own) return false;
      }
    }
    // From now on the memory is the caller's, who may do anything with it.
    for (std::size_t i = 0; i < s.count; ++i) w.input(r)[i] = w.output(r)[i] = {0, true};
    return true;
  });
  for (std::size_t i = 0; v == verdict::correct && i < static_cast<std::size_t>(n) * s.count;
       ++i)  // and nobody else touches it
    if (auto const e = w.output(i / s.count)[i % s.count]; e.who != 0 || !e.twice) return verdict::wrong;
  return v;
}

}  // namespace symbolic

/// Whether a schedule does what it says among n ranks: every element of every output has every contribution it should
/// have, once, at the moment its rank says ready; in place and out of place; in several rounds with a short last slice;
/// over several orders of polls, numbers of slots and lanes; through slots, landing in outputs, and straight from
/// memory; for counts of 0, fewer than ranks, and not divisible; with nothing left behind and no input written.
///
/// A constant expression: `static_assert(ringlet::proved<my_schedule>(4));`. Large n need more of the compiler's
/// patience (`-fconstexpr-ops-limit` of g++, `-fconstexpr-steps` of clang++).
/// @tparam S the schedule, the library's or a reader's own
/// @param n the number of ranks, 1 to 64
template <schedule S>
constexpr bool proved(int n) {
  using symbolic::setting;
  auto const size = static_cast<std::size_t>(n);
  std::size_t const few = (size + 1) / 2, some = 3 * size - 1, more = 5 * size - 1;  // the last chunk is shorter
  for (setting const& s :
       {setting{.count = some}, setting{.count = some, .slots = 2, .depth = 1, .in_place = true, .order = 1},
        setting{.count = more, .in_place = true, .landing = true, .order = 2},
        setting{.count = some, .lanes = 2, .landing = true, .order = 3}, setting{.count = 0, .order = 1},
        setting{.count = few, .in_place = true, .order = 3}})
    if (symbolic::check<S>(n, s) != symbolic::verdict::correct) return false;
  for (setting const& s :
       {setting{.count = some, .order = 1}, setting{.count = some, .in_place = true, .landing = true, .order = 3}})
    if (symbolic::check<S, true>(n, s) != symbolic::verdict::correct) return false;
  return true;
}

}  // namespace ringlet
