// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ringlet/call.hpp"
#include "ringlet/combine.hpp"
#include "ringlet/mapped_peers.hpp"
#include "ringlet/operation.hpp"
#include "ringlet/schedule.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/worker.hpp"

namespace ringlet {

/// How an operation among mapped peers goes on once all have met.
enum class route : std::uint8_t {
  one_shot,  ///< small: the boards held all input, each rank computes all it needs, and that is all
  direct,    ///< mapped: each rank computes its chunk and writes it to whoever needs it, then all meet again
  ring,      ///< somebody's memory is out of the others' reach: slices through slots
};

/// A collective among peers whose memory is mapped: no ring, no steps. All meet in an exchange, which shows at once whether
/// they called the same thing. Small input travels on the boards, and that is all. Otherwise the boards say where buffers
/// lie: if everyone can reach what it needs, each rank makes one pass over its own chunk between two exchanges; if not,
/// all see so and take to the ring alike.
/// @tparam What the collective
/// @tparam Arithmetic what one hop does to a value
/// @tparam Peers the mapped peers
template <collective What, class Arithmetic, class Peers>
class direct_operation {
 public:
  using element = typename Arithmetic::element;

  /// @param one_shot_bytes input of up to so many bytes a rank travels on the boards; the same on all ranks
  /// @param called what this rank called; must outlive the operation, and be complete when it is first polled
  constexpr direct_operation(Peers& peers, buffers<element> at, Arithmetic how, call const& called,
                             std::size_t one_shot_bytes)
      : peers_(&peers), at_(at), how_(how), called_(&called) {
    std::size_t const bytes = sizeof(element) * (whole_input(What) ? at.chunks.count : at.chunks.longest());
    if (anyone_can_lift && bytes <= one_shot_bytes && bytes <= peers.board_bytes() && alignof(element) <= 16)
      route_ = route::one_shot;
  }
  direct_operation(direct_operation const&) = delete;
  direct_operation& operator=(direct_operation const&) = delete;

  /// Goes as far as it can without waiting. `ready` with `route() == route::ring` means that all have met and that a ring
  /// operation is to follow.
  constexpr status poll() {
    if (stage_ == stage::come) come();
    for (;;) {
      if (!all_read()) return differs_ >= 0 || peers_->broken() ? status::failed : status::pending;
      if (stage_ == stage::part) return status::ready;
      if (route_ == route::one_shot) return compute(), status::ready;
      if (!all_mapped()) return route_ = route::ring, status::ready;
      if (!pass()) return status::failed;
      peers_->publish(*called_);
      stage_ = stage::part, next_ = 0;
    }
  }

  /// A number that changes when it has come further.
  constexpr std::uint64_t moves() const {
    return static_cast<std::uint64_t>(next_) * 4 + static_cast<unsigned>(stage_);
  }
  /// How it goes on. Final once `poll` said `ready`.
  constexpr ringlet::route route() const { return route_; }
  /// After `failed`: the rank that called something else, or -1.
  constexpr int disagreeing() const { return differs_; }

 private:
  enum class stage : std::uint8_t { come, meet, part };
  // An operator with a value may lift differently on each rank (`scaled_sum`): then each must do it by itself, in a ring.
  static constexpr bool anyone_can_lift = !Arithmetic::lifts || std::is_empty_v<typename Arithmetic::operation>;

  // What a rank shows of its memory: where its input and its output lie.
  static constexpr int input = 0, output = 1;

  constexpr std::size_t input_count() const {
    return whole_input(What) ? at_.chunks.count : at_.chunks.length(static_cast<std::size_t>(peers_->rank()));
  }
  constexpr std::size_t output_count() const {
    return whole_output(What) ? at_.chunks.count : at_.chunks.length(static_cast<std::size_t>(peers_->rank()));
  }

  constexpr void come() {
    digest_ = ringlet::digest(*called_);
    if (route_ == route::one_shot) {
      element* const board = peers_->template board<element>();
      copy(board, at_.input, input_count(), false);
    } else {
      position* const board = peers_->template board<position>();
      board[input] = peers_->locate(at_.input, input_count() * sizeof(element));
      board[output] = peers_->locate(at_.output, output_count() * sizeof(element));
    }
    peers_->publish(*called_);
    stage_ = stage::meet;
  }

  constexpr bool all_read() {
    for (; next_ < peers_->size(); ++next_) {
      if (peers_->template try_read<element>(next_) == nullptr) return false;
      if (peers_->digest(next_) != digest_) return differs_ = next_, false;
    }
    return true;
  }

  // Whether every rank can do its part. All ranks look at the same boards, so all say the same.
  constexpr bool all_mapped() const {
    if (!anyone_can_lift) return false;
    for (int peer = 0; peer < peers_->size(); ++peer) {
      position const* const its = peers_->template try_read<position>(peer);
      if (whole_input(What) && its[input].window == 0) return false;    // everyone reads its chunk of my input
      if (whole_output(What) && its[output].window == 0) return false;  // everyone writes its chunk of my output
    }
    return true;
  }

  static constexpr void copy(element* to, element const* from, std::size_t n, bool far) {
    detail::copy(this_thread{}, static_cast<element*>(nullptr), to, from, n, far);
  }

  // One shot: everything that I need stands on the boards.
  constexpr void compute() {
    if constexpr (What == collective::all_gather) {
      for (int r = 0; r < peers_->size(); ++r) land(input_of(r), at_.output + offset(r), length(r));
    } else if constexpr (What == collective::reduce_scatter) {
      reduce(peers_->rank(), 0, length(peers_->rank()), at_.output, false);
    } else {
      for (int c = 0; c < peers_->size(); ++c) reduce(c, 0, length(c), at_.output + offset(c), false);
    }
  }

  // Two exchanges: I compute my chunk, a block at a time, and hand each block out while the cache has it. A block of a
  // large result is made aside, and stored past the caches in every output, mine too.
  // False when a fault ended it before.
  constexpr bool pass() {
    if (!peers_->enter()) return false;
    int const me = peers_->rank();
    bool whole = true;
    bool const far = at_.chunks.count * sizeof(element) >= larger_than_caches;
    constexpr std::size_t block = elements_in(8192);
    scratch<element, block> aside;
    for (std::size_t begin = 0; whole && begin < length(me); begin += block) {
      std::size_t const n = length(me) - begin < block ? length(me) - begin : block;
      if constexpr (What == collective::reduce_scatter) {
        reduce(me, begin, n, at_.output + begin, far);
      } else {
        std::size_t const home = offset(me) + begin;
        element* const made = far ? aside.data() : at_.output + home;
        if constexpr (What == collective::all_gather)
          land(at_.input + begin, made, n);
        else
          reduce(me, begin, n, made, false);
        for (int k = far ? 0 : 1; k < peers_->size(); ++k)  // not all to rank 0 first
          copy(memory((me + k) % peers_->size(), output) + home, made, n, far);
      }
      whole = !peers_->broken();  // whoever has failed waits until nobody is at its buffers
    }
    peers_->leave();
    return whole;
  }

  // Adds up all contributions to part of a chunk in the order in which a ring would: rank c+1 first, rank c, the chunk's
  // owner, last. So the choice of algorithm never changes the bits.
  constexpr void reduce(int chunk, std::size_t begin, std::size_t count, element* result, bool far) const {
    using wire = typename Arithmetic::wire;
    constexpr std::size_t block = elements_in(4096);  // partial sums stay in the first-level cache
    int const size = peers_->size();
    scratch<wire, block> partial;
    for (std::size_t i = 0; i < count; i += block) {
      std::size_t const n = count - i < block ? count - i : block;
      auto contribution = [&](int k) { return input_of((chunk + k) % size) + offset(chunk) + begin + i; };
      wire const* sum = nullptr;
      int k = 1;
      if constexpr (std::is_same_v<element, wire> && !Arithmetic::lifts)
        if (size > 1) sum = contribution(k++);  // as it is: nothing to compute
      for (; k <= size; ++k, sum = partial.data())
        combine(this_thread{}, k < size ? partial.data() : nullptr, k < size ? nullptr : result + i, sum,
                contribution(k), n, how_, k == size, far);
    }
  }
  constexpr void land(element const* from, element* to, std::size_t n) const {
    combine(this_thread{}, static_cast<typename Arithmetic::wire*>(nullptr), to,
            static_cast<typename Arithmetic::wire const*>(nullptr), from, n, how_, true);
  }
  constexpr element* memory(int peer, int which) const {
    return peers_->template at<element>(peer, peers_->template try_read<position>(peer)[which]);
  }
  // The whole input of a rank: on its board, or where its board says.
  constexpr element const* input_of(int peer) const {
    return route_ == route::one_shot ? peers_->template try_read<element>(peer) : memory(peer, input);
  }
  // Room for values. In bytes where a type has no default constructor: it is copied to, as everywhere.
  template <class V, std::size_t N>
  struct scratch {
    V values[N];
    constexpr V* data() { return values; }
  };
  template <class V, std::size_t N>
    requires(!std::is_default_constructible_v<V>)
  struct scratch<V, N> {
    alignas(V) unsigned char bytes[N * sizeof(V)];
    V* data() { return reinterpret_cast<V*>(bytes); }
  };
  static constexpr std::size_t elements_in(std::size_t bytes) {
    return bytes < sizeof(element) ? 1 : bytes / sizeof(element);
  }
  constexpr std::size_t offset(int chunk) const { return at_.chunks.offset(static_cast<std::size_t>(chunk)); }
  constexpr std::size_t length(int chunk) const { return at_.chunks.length(static_cast<std::size_t>(chunk)); }

  Peers* peers_;
  buffers<element> at_;
  Arithmetic how_;
  call const* called_;
  std::uint64_t digest_ = 0;
  int next_ = 0, differs_ = -1;
  stage stage_ = stage::come;
  ringlet::route route_ = route::direct;
};

}  // namespace ringlet
