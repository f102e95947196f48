// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "ringlet/call.hpp"
#include "ringlet/chords.hpp"
#include "ringlet/combine.hpp"
#include "ringlet/direct.hpp"
#include "ringlet/link.hpp"
#include "ringlet/operation.hpp"
#include "ringlet/schedule.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/worker.hpp"

namespace ringlet {

/// A collective of little data among many ranks: one shot in log2(n) steps. In step k each rank sends all that it has,
/// the raw inputs of itself and of the ranks behind it, to the rank 2^k further on, and so has those of twice as many
/// ranks afterwards (Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing
/// systems", 1997; any n). Then it computes by itself what it needs.
///
/// Halving and doubling would send sums instead, and less; but raw inputs can be added in the order of the ring, so the
/// choice of algorithm never changes the bits, and no number of ranks is special. What has come stays in the slots
/// until it is added: there is no other memory. Whoever is through knows that all ranks have begun, even where there
/// are no elements: then it is the dissemination barrier.
/// @tparam What the collective, without a root
/// @tparam Arithmetic what one hop does to a value
/// @tparam Chords has `chord(k)`, as `chorded` says
template <collective What, class Arithmetic, class Chords>
  requires(!rooted(What))
class chord_operation {
 public:
  using element = typename Arithmetic::element;
  /// An operator with a value may lift differently on each rank (`scaled_sum`): then each must do it by itself.
  static constexpr bool possible = !Arithmetic::lifts || std::is_empty_v<typename Arithmetic::operation>;

  /// Nothing is sent before the first poll.
  /// @param called what to announce and to expect; must outlive the operation, and be complete when it is first polled
  constexpr chord_operation(Chords& chords, int rank, buffers<element> at, Arithmetic how, call const& called)
      : chords_(&chords),
        at_(at),
        how_(how),
        called_(&called),
        rank_(rank),
        steps_(chords_among(size())),
        each_(whole_input(What) ? at.chunks.count : at.chunks.longest()) {}
  chord_operation(chord_operation const&) = delete;
  chord_operation& operator=(chord_operation const&) = delete;

  /// Bytes that a rank brings, by which it is decided whether to go this way; the most, where ranks differ.
  constexpr std::size_t input_bytes() const { return each_ * sizeof(element); }
  /// Goes as far as it can without waiting. `failed`: a rank called something else (`disagreement`), or waiting is
  /// useless.
  constexpr status poll() {
    for (; step_ < steps_; ++step_, sent_ = false)
      if (!(sent_ = sent_ || send()) || !receive()) return stuck(step_);
    if (!std::exchange(computed_, true)) compute();
    for (; drained_ < steps_; ++drained_)
      if (!chords_->chord(drained_).next().drained()) return stuck(drained_);
    return status::ready;
  }

  /// A number that changes when it has come further.
  constexpr std::uint64_t moves() const { return static_cast<unsigned>(2 * (step_ + drained_) + sent_); }
  /// The step at which it stands.
  constexpr int step_reached() const { return step_; }
  /// What has been moved so far.
  constexpr movement const& moved() const { return moved_; }
  /// After `failed`: the rank that called something else, or -1, and what it called.
  constexpr int disagreeing() const { return differs_ ? (rank_ - (1 << step_) + size()) % size() : -1; }
  constexpr call const& disagreement() const { return chords_->chord(step_).prev().announced(); }

 private:
  using wire = typename Arithmetic::wire;
  using link_type = std::remove_reference_t<decltype(std::declval<Chords&>().chord(0))>;
  // Contributions are added as they stand.
  static constexpr bool plain = std::is_same_v<element, wire> && !Arithmetic::lifts;

  constexpr int size() const { return static_cast<int>(at_.chunks.parts); }
  constexpr std::size_t offset(int chunk) const { return at_.chunks.offset(static_cast<std::size_t>(chunk)); }
  constexpr std::size_t length(int chunk) const { return at_.chunks.length(static_cast<std::size_t>(chunk)); }
  constexpr placement arriving() const { return {0, chord_share(step_, size()) * each_, false}; }
  constexpr status stuck(int k) { return differs_ || chords_->chord(k).broken() ? status::failed : status::pending; }

  constexpr bool send() {
    auto& next = chords_->chord(step_).next();
    placement const all = arriving();
    slice<element> const out = next.template try_acquire<element>(all);
    if (!out) return false;
    copy(out.data, at_.input, whole_input(What) ? each_ : length(rank_));
    for (std::size_t k = 0, have = each_; have < all.count; ++k, have *= 2)
      copy(out.data + have, came_[k], have < all.count - have ? have : all.count - have);
    if constexpr (announcing_link<link_type>) next.announce(*called_);
    next.commit();
    ++moved_.slices, moved_.sent += all.count;
    return true;
  }
  constexpr bool receive() {
    auto& prev = chords_->chord(step_).prev();
    placement const all = arriving();
    slice<element> const got = prev.template try_peek<element>(all);
    if (!got) return false;
    if constexpr (announcing_link<link_type>)
      if (!(prev.announced() == *called_)) return differs_ = true, false;
    came_[step_] = got.data;
    moved_.received += all.count;
    return true;
  }
  static constexpr void copy(element* to, element const* from, std::size_t n) {
    if (n != 0) detail::copy(this_thread{}, static_cast<element*>(nullptr), to, from, n, false);
  }

  constexpr void compute() {
    if constexpr (What == collective::reduce_scatter) reduce(rank_, at_.output);
    for (int c = 0; whole_output(What) && c < size(); ++c)
      if constexpr (What == collective::all_gather)
        combine(this_thread{}, static_cast<wire*>(nullptr), at_.output + offset(c), static_cast<wire const*>(nullptr),
                input_of(c), length(c), how_, true);
      else
        reduce(c, at_.output + offset(c));
    for (int k = 0; k < steps_; ++k) chords_->chord(k).prev().release();
  }
  // A chunk, in the order of the ring: rank c+1 first, rank c, the chunk's owner, last. In place, a block is stored
  // when nobody needs what was there.
  constexpr void reduce(int chunk, element* result) const {
    constexpr std::size_t block = detail::elements_in<element>(4096);
    detail::scratch<wire, block> partial;
    for (std::size_t i = 0; i < length(chunk); i += block) {
      std::size_t const n = length(chunk) - i < block ? length(chunk) - i : block;
      auto of = [&](int k) { return input_of((chunk + k) % size()) + offset(chunk) + i; };
      wire const* sum = nullptr;
      int k = 1;
      if constexpr (plain)
        if (size() > 1 && of(1) != result + i) sum = of(k++);  // as it is: nothing to compute
      for (; k <= size(); ++k, sum = partial.data())
        combine(this_thread{}, k < size() ? partial.data() : nullptr, k < size() ? nullptr : result + i, sum, of(k), n,
                how_, k == size());
    }
  }
  // What step k has brought are the inputs of 2^k ranks, from the one that is 2^k back to those behind it.
  constexpr element const* input_of(int peer) const {
    int const back = (rank_ - peer + size()) % size();
    if (back == 0) return at_.input;
    int const k = 31 - __builtin_clz(static_cast<unsigned>(back));
    return came_[k] + static_cast<std::size_t>(back - (1 << k)) * each_;
  }

  Chords* chords_;
  buffers<element> at_;
  Arithmetic how_;
  call const* called_;
  int rank_, steps_;
  std::size_t each_;              // elements that a rank brings; of the longest chunk, where they differ
  element const* came_[31] = {};  // by step
  int step_ = 0, drained_ = 0;
  movement moved_{};
  bool sent_ = false, differs_ = false, computed_ = false;
};

}  // namespace ringlet
