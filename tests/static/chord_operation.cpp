// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What goes by chords is complete, has the bits that a ring gives, and takes log2(n) messages: by compiling.
#include "ringlet/chord_operation.hpp"

#include "ringlet/prove.hpp"

namespace {
using namespace ringlet;
using enum collective;
using symbolic::array;
using symbolic::contributors;
using symbolic::setting;

// The queues of the ring's proof; these announce calls.
template <class T>
class queue : public symbolic::queue<T, false> {
 public:
  constexpr queue(setting const& s) : symbolic::queue<T, false>(s), calls_(s.slots) {}
  constexpr void announce(call const& c) { calls_[sent_ % calls_.size()] = c; }
  constexpr void commit() { symbolic::queue<T, false>::commit(), ++sent_; }
  constexpr call const& announced() const { return calls_[taken_ % calls_.size()]; }
  constexpr void release() { symbolic::queue<T, false>::release(), ++taken_; }

 private:
  array<call> calls_;
  std::size_t sent_ = 0, taken_ = 0;
};
// One rank's chords.
template <class T>
struct chords {
  struct link {
    queue<T>*to, *from;
    constexpr queue<T>& next() { return *to; }
    constexpr queue<T>& prev() { return *from; }
    constexpr bool broken() const { return from->differ(); }
  };
  link all[5];
  constexpr link& chord(int k) { return all[k]; }
};

// Ranks that do one operation several times, over links that remain.
template <collective What, class Op, class T>
class world {
  using operation = chord_operation<What, arithmetic<T, Op>, chords<T>>;

 public:
  template <class Fill>
  constexpr world(int n, setting s, Fill fill, std::size_t times = 1)
      : n_(static_cast<std::size_t>(n)),
        times_(times),
        steps_(static_cast<std::size_t>(chords_among(n))),
        how_(s),
        chunks_{s.count, n_},
        original_(n_ * s.count + 1),
        in_(n_ * s.count + 1),
        out_(n_ * s.count + 1),
        queues_(n_ * steps_),
        chords_(n_),
        calls_(n_),
        operations_(n_),
        done_(n_) {
    for (std::size_t i = 0; i < n_ * s.count; ++i) original_[i] = fill(i / s.count, i % s.count);
    for (std::size_t i = 0; i < n_ * steps_; ++i) {
      setting its = s;
      its.slots = 2, its.width = chord_share(static_cast<int>(i % steps_), n) * s.count + 1;
      queues_[i] = new queue<T>(its);
    }
    for (std::size_t r = 0; r < n_; ++r) {
      for (std::size_t k = 0; k < steps_; ++k)
        chords_[r].all[k] = {queues_[r * steps_ + k], queues_[(r + n_ - (std::size_t{1} << k)) % n_ * steps_ + k]};
      calls_[r].count = s.count;
      begin(r);
    }
  }
  constexpr ~world() {
    for (std::size_t i = 0; i < queues_.size(); ++i) delete queues_[i];
    for (std::size_t r = 0; r < n_; ++r) delete operations_[r];
  }

  // Until all are ready, or nobody gets on, or one has failed. `look(output, rank)` is asked at the moment when a rank
  // is ready; from then on its memory is its caller's, who spoils it. True when all was well, and nothing is left.
  template <class Look>
  constexpr bool run(Look look) {
    bool good = true, hold = how_.order == 3;
    for (std::size_t sweep = 0, left = n_; left > 0; ++sweep) {
      bool moved = false;
      for (std::size_t q = 0; q < n_; ++q) {
        std::size_t const r = how_.order == 0 || how_.order == 3 ? q : (n_ - 1 - q + sweep * (how_.order == 2)) % n_;
        if (done_[r] == times_ || (hold && r == 0 && n_ > 1)) continue;
        auto const before = operations_[r]->moves();
        status const now = operations_[r]->poll();
        if (now == status::failed) return false;
        moved = moved || now == status::ready || operations_[r]->moves() != before;
        if (now != status::ready) continue;
        good = good && look(output(r), r) && operations_[r]->moved().slices == steps_;
        for (std::size_t i = r * how_.count; i < (r + 1) * how_.count; ++i) {
          good = good && (how_.in_place || same(in_[i], original_[i]));
          in_[i] = out_[i] = T{};
        }
        if (++done_[r] == times_)
          --left;
        else
          begin(r);
      }
      if (!moved && !hold) return false;
      hold = how_.order == 3 && moved;
    }
    for (std::size_t i = 0; i < queues_.size(); ++i) good = good && queues_[i]->empty();
    return good;
  }
  constexpr operation const& of(std::size_t rank) const { return *operations_[rank]; }
  constexpr call& called(std::size_t rank) { return calls_[rank]; }
  constexpr partition chunks() const { return chunks_; }

 private:
  static constexpr bool same(contributors a, contributors b) { return a.who == b.who && a.twice == b.twice; }
  static constexpr bool same(std::uint32_t a, std::uint32_t b) { return a == b; }
  constexpr T* output(std::size_t r) { return (how_.in_place ? in_ : out_).data() + r * how_.count; }
  constexpr void begin(std::size_t r) {
    std::size_t const mine = chunks_.offset(r);
    for (std::size_t i = r * how_.count; i < (r + 1) * how_.count; ++i) in_[i] = original_[i];
    calls_[r].sequence = done_[r] + 1;
    buffers<T> const at{in_.data() + r * how_.count + (whole_input(What) ? 0 : mine),
                        output(r) + (whole_output(What) ? 0 : mine), chunks_};
    delete operations_[r];
    operations_[r] =
        new operation(chords_[r], static_cast<int>(r), at, arithmetic<T, Op>(Op{}, static_cast<int>(n_)), calls_[r]);
  }

  std::size_t n_, times_, steps_;
  setting how_;
  partition chunks_;
  array<T> original_, in_, out_;
  array<queue<T>*> queues_;
  array<chords<T>> chords_;
  array<call> calls_;
  array<operation*> operations_;
  array<std::size_t> done_;
};

// 1. Every contributor once, in log2(n) messages a rank, whatever the order of polls. --------------------------------

template <collective What>
constexpr bool complete(int n, setting s) {
  using op = std::conditional_t<What == all_gather, keep, symbolic::join>;
  auto const fill = [](std::size_t r, std::size_t) { return contributors{std::uint64_t{1} << r, false}; };
  world<What, op, contributors> w(n, s, fill, n <= 5 ? 3 : 1);  // three, since slots are used again
  return w.run([&](contributors const* output, std::size_t r) {
    for (std::size_t c = 0; c < w.chunks().parts; ++c)
      for (std::size_t i = w.chunks().offset(c); i < w.chunks().offset(c + 1); ++i)
        if ((whole_output(What) || c == r) && (output[i].twice || output[i].who != symbolic::expected<What>(n, c)))
          return false;
    return true;
  });
}
template <collective What>
constexpr bool complete_from_to(int first, int last) {
  for (int n = first; n <= last; ++n) {
    auto const size = static_cast<std::size_t>(n), few = (size + 1) / 2;
    if (!complete<What>(n, {.count = few, .in_place = true, .order = 2})) return false;
    if (n > 9) continue;
    for (setting const& s : {setting{.count = 0}, setting{.count = 2 * size - 1, .order = 3},
                             setting{.count = size, .in_place = true, .order = 1}})
      if (!complete<What>(n, s)) return false;
  }
  return true;
}
static_assert(complete_from_to<all_reduce>(1, 9) && complete_from_to<all_reduce>(10, 17));
static_assert(complete_from_to<reduce_scatter>(1, 6) && complete_from_to<all_gather>(1, 6));

// 2. The order of addition, with an operator that is neither associative nor commutative, though it claims to be: on
// all ranks alike, and that of the ring. ---------------------------------------------------------------------------

struct tangle {
  using commutative_and_associative = std::true_type;
  constexpr std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const { return 3 * a + b; }
};
template <collective What>
constexpr bool same_bits(int n, std::size_t count) {
  auto const odd = [](std::size_t r, std::size_t i) { return static_cast<std::uint32_t>(101 * r + 7 * i + 1); };
  using op = std::conditional_t<What == all_gather, keep, tangle>;
  symbolic::world<ring_schedule<What>, std::uint32_t, op, false> ring(n, {.count = count}, odd);
  bool good = ring.run([](std::size_t) { return true; }) == symbolic::verdict::correct;
  for (bool in_place : {false, true}) {
    if (n > 5 && in_place != (n % 2 == 0)) continue;
    world<What, op, std::uint32_t> w(n, {.count = count, .in_place = in_place}, odd);
    good = good && w.run([&](std::uint32_t const* output, std::size_t r) {
      for (std::size_t i = 0; i < count; ++i) {
        bool const mine = i >= w.chunks().offset(r) && i < w.chunks().offset(r + 1);
        if ((whole_output(What) || mine) && output[i] != ring.output(r)[i]) return false;
      }
      return true;
    });
  }
  return good;
}
static_assert([] {
  for (int n = 1; n <= 16; ++n)
    if (!same_bits<all_reduce>(n, 3)) return false;
  return true;
}());
static_assert(same_bits<all_reduce>(3, 17) && same_bits<all_reduce>(5, 23) && same_bits<all_reduce>(8, 9));
static_assert(same_bits<reduce_scatter>(2, 9) && same_bits<reduce_scatter>(5, 23) && same_bits<reduce_scatter>(8, 7));
static_assert(same_bits<all_gather>(2, 9) && same_bits<all_gather>(5, 23) && same_bits<all_gather>(8, 7));

// 3. Ranks that call different things: whoever hears of it first names the other one and what it called. -------------

constexpr bool disagreement_is_named(int n, std::size_t who, int order) {
  world<all_reduce, symbolic::join, contributors> w(n, {.count = 2, .order = order}, [](std::size_t r, std::size_t) {
    return contributors{std::uint64_t{1} << r, false};
  });
  w.called(who).element = 1;
  if (w.run([](contributors const*, std::size_t) { return true; })) return false;
  bool named = false;
  for (std::size_t r = 0; r < static_cast<std::size_t>(n); ++r)
    if (int const other = w.of(r).disagreeing(); other >= 0) {
      if ((r == who) == (static_cast<std::size_t>(other) == who)) return false;
      named = w.of(r).disagreement().element != w.called(r).element;
    }
  return named;
}
static_assert([] {
  for (int n = 2; n <= 6; ++n)
    for (int order = 0; order < 4; ++order)
      if (!disagreement_is_named(n, static_cast<std::size_t>(n) / 2, order)) return false;
  return true;
}());

// 4. An operator that lifts differently on each rank cannot go this way; one that lifts alike everywhere can. ---------

static_assert(!chord_operation<all_reduce, arithmetic<float, scaled_sum<float>>, chords<float>>::possible);
static_assert(chord_operation<all_reduce, arithmetic<float, average>, chords<float>>::possible);

}  // namespace
