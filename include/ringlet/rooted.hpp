// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ringlet/call.hpp"
#include "ringlet/combine.hpp"
#include "ringlet/config.hpp"
#include "ringlet/direct.hpp"
#include "ringlet/mapped_peers.hpp"
#include "ringlet/operation.hpp"
#include "ringlet/schedule.hpp"
#include "ringlet/selection.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/worker.hpp"

namespace ringlet {

/// A broadcast or a reduce among peers whose memory is mapped. All meet in an exchange, as in `direct_operation`. Small
/// input travels on the boards. Otherwise, between two exchanges, each rank copies the root's buffer (broadcast), or
/// adds up its chunk of all buffers and stores it in the root's output (reduce). If all of these are out of reach and
/// of moderate size, the input is on the boards as well, and that is all; otherwise, if one is, a ring is to follow.
/// @tparam What broadcast or reduce
/// @tparam Arithmetic what one hop does to a value
/// @tparam Peers the mapped peers
template <collective What, class Arithmetic, class Peers>
  requires(rooted(What))
class rooted_operation {
 public:
  using element = typename Arithmetic::element;

  /// @param called what this rank called; must outlive the operation, and be complete when it is first polled
  /// @param root the root's rank; the input of others than the root, or the output, is not looked at
  constexpr rooted_operation(Peers& peers, buffers<element> at, Arithmetic how, call const& called, selection const& s,
                             int root)
      : peers_(&peers), at_(at), how_(how), called_(&called), select_(s), root_(root) {}
  rooted_operation(rooted_operation const&) = delete;
  rooted_operation& operator=(rooted_operation const&) = delete;

  /// As `direct_operation::poll`.
  constexpr status poll() {
    if (exchange_ == 0) come();
    for (;; show()) {
      for (; next_ < peers_->size(); ++next_) {
        if (!peers_->published(next_)) return peers_->broken() ? status::failed : status::pending;
        if (peers_->digest(next_) != peers_->digest(peers_->rank())) return differs_ = next_, status::failed;
      }
      if (exchange_ == 1 && route_ == route::direct) route_ = agreed();
      if (route_ == route::ring) return status::ready;
      if (exchange_ == 2 || route_ == route::one_shot) return finish(), status::ready;
      if (!pass()) return status::failed;
    }
  }

  /// As those of `direct_operation`.
  constexpr std::uint64_t moves() const { return std::uint64_t{exchange_} << 32 | static_cast<unsigned>(next_); }
  constexpr std::size_t exchanges() const { return exchange_; }
  constexpr ringlet::route route() const { return route_; }
  constexpr int disagreeing() const { return differs_; }

 private:
  using enum detail::shown_memory;
  static constexpr bool adds = reduces(What);
  // As in `direct_operation`: otherwise each rank must lift its own.
  static constexpr bool anyone_can_lift = !Arithmetic::lifts || std::is_empty_v<typename Arithmetic::operation>;

  constexpr void come() {
    route_ = chosen(true);
    bool hidden = false;
    for (auto which : {input, output}) {
      if (route_ == route::one_shot || !needed(peers_->rank(), which)) continue;
      here_[which] = peers_->locate(which == input ? at_.input : at_.output, at_.chunks.count * sizeof(element));
      hidden = hidden || here_[which].window == 0;
    }
    if (hidden && chosen(false) == route::one_shot) here_[input].window = here_[output].window = position::on_board;
    if (needed(peers_->rank(), input) && (route_ == route::one_shot || here_[input].window == position::on_board))
      detail::copy(this_thread{}, static_cast<element*>(nullptr), peers_->template board<element>(at_.chunks.count),
                   at_.input, at_.chunks.count, false);
    show();
  }
  constexpr ringlet::route chosen(bool in_reach) const {
    if (!anyone_can_lift) return route::ring;
    std::size_t const bytes = at_.chunks.count * sizeof(element);
    // As in `direct_operation`.
    bool const fits = alignof(element) <= 16 && (in_reach || bytes > short_board_bytes);
    return select_.choose(bytes, bytes, peers_->size(), in_reach, fits ? peers_->board_bytes() : 0, false);
  }
  constexpr void show() {
    if (route_ != route::one_shot)
      for (auto which : {input, output}) peers_->template board<position>(2)[which] = here_[which];
    peers_->publish(*called_);
    ++exchange_;
    next_ = 0;
  }
  // Whose memory others must reach.
  constexpr bool needed(int rank, detail::shown_memory which) const {
    return adds ? which == input || rank == root_ : which == input && rank == root_;
  }
  // All memory that others must reach is in reach, or all input is on the boards.
  constexpr ringlet::route agreed() const {
    bool all_in_reach = true, all_on_boards = true;
    for (int peer = 0; peer < peers_->size(); ++peer)
      for (auto which : {input, output}) {
        if (!needed(peer, which)) continue;
        auto const window = shown(peer)[which].window;
        all_in_reach = all_in_reach && window != 0 && window != position::on_board;
        all_on_boards = all_on_boards && window == position::on_board;
      }
    return all_in_reach ? route::direct : all_on_boards ? route::one_shot : route::ring;
  }

  // Between the exchanges. False when a fault ended it before: whoever has failed waits until nobody is at its buffers.
  constexpr bool pass() {
    if (!peers_->enter()) return false;
    auto const me = static_cast<std::size_t>(peers_->rank());
    bool whole = true;
    if constexpr (adds) {
      element* const to = is_root() ? at_.output : peers_->template at<element>(root_, shown(root_)[output]);
      whole = compute(at_.chunks.offset(me), at_.chunks.offset(me + 1), to);
    } else if (!is_root()) {
      whole = compute(0, at_.chunks.count, at_.output);
    }
    peers_->leave();
    return whole;
  }
  // After the last exchange: what is on the boards, or, since nobody reads its input any more, the root's own output.
  constexpr void finish() {
    if (adds ? route_ == route::one_shot && is_root() : route_ == route::one_shot || is_root())
      compute(0, at_.chunks.count, at_.output);
  }
  // The root's values, or the sum of all in the order of the ring: the rank after the root first, the root last.
  constexpr bool compute(std::size_t begin, std::size_t end, element* to) {
    constexpr std::size_t block = detail::elements_in<element>(adds ? 4096 : 65536);  // sums stay in the nearest cache
    int const size = peers_->size();
    bool const far = at_.chunks.count * sizeof(element) >= larger_than_caches;
    detail::scratch<typename Arithmetic::wire, adds ? block : 1> partial;
    for (std::size_t i = begin; i < end; i += block) {
      std::size_t const n = end - i < block ? end - i : block;
      typename Arithmetic::wire const* sum = nullptr;
      for (int k = adds ? 1 : size; k <= size; ++k, sum = partial.data())
        combine(this_thread{}, k < size ? partial.data() : nullptr, k < size ? nullptr : to + i, sum,
                contribution((root_ + k) % size) + i, n, how_, k == size, far);
      if (peers_->broken()) return false;
    }
    return true;
  }
  constexpr element const* contribution(int peer) const {
    if (route_ == route::one_shot) return peers_->template read<element>(peer, at_.chunks.count);
    return peer == peers_->rank() ? at_.input : peers_->template at<element>(peer, shown(peer)[input]);
  }
  constexpr position const* shown(int peer) const { return peers_->template read<position>(peer, 2); }
  constexpr bool is_root() const { return peers_->rank() == root_; }

  Peers* peers_;
  buffers<element> at_;
  Arithmetic how_;
  call const* called_;
  selection select_;
  int root_;
  position here_[2];
  unsigned exchange_ = 0;
  int next_ = 0, differs_ = -1;
  ringlet::route route_ = route::direct;
};

}  // namespace ringlet
