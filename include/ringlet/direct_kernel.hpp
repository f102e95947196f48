// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ringlet/call.hpp"
#include "ringlet/config.hpp"
#include "ringlet/cuda_kernels.hpp"
#include "ringlet/detail/gathering.hpp"
#include "ringlet/kernel.hpp"
#include "ringlet/mapped_peers.hpp"
#include "ringlet/operation.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/schedule.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/transport/device_segment.hpp"

// Collectives without a ring, for ranks whose devices reach each other's memory. All give the bits that the ring gives.

namespace ringlet {

/// How a `direct_kernel` goes.
enum class kernel_route : std::uint8_t {
  one_shot,  ///< input goes by the stages; each rank computes all that it needs, after one meeting a round
  staged,    ///< input goes by the stages; each rank computes its chunk, and its results go by the stages again
  direct,    ///< each rank computes its chunk in the others' memory; `staged` if any of it is out of reach
};

/// A collective among ranks that reach each other's segments, as a kernel body. Block b of each rank works on share b
/// of every chunk, and meets block b of the others.
///
/// Buffers out of reach go by the stages, as much at a time as these hold. What `direct` needs is found out in its
/// first meeting: where everyone's memory lies, and whether all called the same.
/// @tparam What the collective
/// @tparam T the element
/// @tparam Op the operator; one with a value of its own that lifts (`scaled_sum`) goes by the ring only: here each rank
///   lifts what others give
template <collective What, class T, class Op>
struct direct_kernel {
  using arith = arithmetic<T, Op>;
  static_assert(!arith::lifts || std::is_empty_v<typename arith::operation>,
                "ringlet: an operator with a value may lift differently on each rank: use ring_kernel");

  device_lane* lanes;  ///< of this rank, one for each block
  buffers<T> at;       ///< `lane` and `lanes` are not looked at
  kernel_route route;
  arith how;
  shown_call mine;  ///< what this rank shows; where its buffers lie matters on the route `direct` only
  /// Of `direct`: where each window of each rank is here, `most_device_peers` ranks a window.
  std::byte* const* windows;
  std::uint64_t patience;  ///< nanoseconds without progress after which it gives up

  RINGLET_ANY_EXEC
  template <kernel_worker W>
  RINGLET_HD void operator()(W const& worker, unsigned block, unsigned blocks) const {
    device_lane& lane = lanes[block];
    if (!worker.leader(detail::lane_failed{&lane})) run<W>(*this, worker, lane, block, blocks).all();
  }
  /// The route `direct` and no other: false where not all memory is in reach. Then nothing was done, but all have met.
  RINGLET_ANY_EXEC
  template <kernel_worker W>
  RINGLET_HD bool try_direct(W const& worker, unsigned block, unsigned blocks) const {
    device_lane& lane = lanes[block];
    return worker.leader(detail::lane_failed{&lane}) || run<W>(*this, worker, lane, block, blocks).template all<true>();
  }

 private:
  // One launch of one block.
  template <class W>
  class run {
   public:
    RINGLET_HD run(direct_kernel const& body, W const& worker, device_lane& lane, unsigned block, unsigned blocks)
        : body_(&body),
          worker_(&worker),
          lane_(&lane),
          block_(block),
          blocks_(blocks),
          shots_(lane.shots),
          row_bytes_(lane.stage_bytes / static_cast<unsigned>(lane.size) / interference * interference),
          row_((row_bytes_ - 16) / sizeof(T)),
          gathering_(worker, lane, body.patience) {}

    // Put, meet, compute; where each rank computes its own chunk only, meet again and collect. One loop, in which each
    // of these stands once: kernels are large enough. `OnlyDirect`: false where not all memory is in reach.
    template <bool OnlyDirect = false>
    RINGLET_HD bool all() {
      bool const twice = What == collective::all_reduce && body_->route != kernel_route::one_shot;
      std::size_t const longest = partition{body_->at.chunks.longest(), blocks_}.length(block_);
      enum { ask, put, collect, leave } next = OnlyDirect || body_->route == kernel_route::direct ? ask : put;
      std::size_t first = 0;
      for (shown_call const* show = &body_->mine;; show = nullptr) {
        if (!OnlyDirect && next == put) put_input(first);
        if (!gathering_.meet(show)) return true;
        if (next == leave) break;
        bool const direct = next == ask && in_reach();
        if (next == ask && !direct) {
          if constexpr (OnlyDirect) return false;
          next = put;
          continue;
        }
        if (What == collective::all_gather ? direct : next != collect) compute(first, OnlyDirect || direct);
        if (OnlyDirect || direct || (twice && next == put)) {
          next = OnlyDirect || direct ? leave : collect;
          continue;
        }
        if (What == collective::all_gather || next == collect) collect_results(first);
        next = put;
        ++shots_;
        if ((first += row_) >= longest) break;
      }
      worker_->leader(keep_count{lane_, shots_});
      return true;
    }

   private:
    // Whether everyone can reach what it needs. All look at the same boards, so all see the same.
    RINGLET_HD bool in_reach() const {
      RINGLET_NO_UNROLL
      for (int peer = 0; peer < lane_->size; ++peer) {
        shown_call const& its = gathering_.shown(peer);
        if ((whole_input(What) && its.input.window == 0) || (whole_output(What) && its.output.window == 0))
          return false;
      }
      return true;
    }

    RINGLET_HD void put_input(std::size_t first) const {
      if constexpr (What == collective::all_gather)
        land(row(me(), me(), first), body_->at.input + in_chunk(me()) + first, length(me(), first));
      else
        copy_rows(first, false);
    }
    RINGLET_HD void collect_results(std::size_t first) const { copy_rows(first, true); }
    // From the stages, each chunk from its owner's, to my output; or from my input to my stage.
    RINGLET_HD void copy_rows(std::size_t first, bool collects) const {
      int const begin_at = collects && What != collective::all_gather ? 1 : 0;  // my own results are there
      RINGLET_NO_UNROLL
      for (int k = begin_at; k < lane_->size; ++k) {
        int const c = lane_->after(k);
        std::size_t const in_whole = begin(c) + first;
        T* const staged = row(collects ? c : me(), c, first);
        copy(collects ? body_->at.output + in_whole : staged, collects ? staged : body_->at.input + in_whole,
             length(c, first));
      }
    }
    // One chunk, or in one shot all of them.
    RINGLET_HD void compute(std::size_t first, bool direct) const {
      if constexpr (What == collective::all_gather) {
        std::size_t const n = shares(me()).length(block_), home = begin(me());
        RINGLET_NO_UNROLL
        for (int k = 1; k <= lane_->size; ++k) {
          int const peer = lane_->after(k);
          if (peer == me()) worker_->sync();  // my own output may be the input
          land(output_of(peer) + home, body_->at.input + in_chunk(me()), n);
        }
      } else {
        bool const all = What == collective::all_reduce && body_->route == kernel_route::one_shot;
        int const last = all ? lane_->size : me() + 1;
        RINGLET_NO_UNROLL
        for (int c = all ? 0 : me(); c < last; ++c) reduce(c, first, direct);
      }
    }
    // Where the computing of a chunk reads what a rank gives, and where it writes, the r-th of several places.
    RINGLET_HD device_lane::ends ends(int r, int chunk, std::size_t first, bool direct) const {
      std::size_t const in_whole = begin(chunk) + first;
      T* const home = body_->at.output + (What == collective::all_reduce ? in_whole : in_chunk(chunk) + first);
      if (!direct) return {row(r, chunk, first), r == 0 ? home : row(me(), chunk, first)};
      return {input_of(r) + in_whole, What == collective::all_reduce ? output_of(lane_->after(r)) + in_whole : home};
    }
    RINGLET_HD int targets(bool direct) const {
      if (What != collective::all_reduce || body_->route == kernel_route::one_shot || lane_->size == 1) return 1;
      return direct ? lane_->size : 2;
    }

    // The sum of what all ranks give to a chunk, or to what of it is in a round.
    RINGLET_HD void reduce(int chunk, std::size_t first, bool direct) const {
      std::size_t const n = direct ? shares(chunk).length(block_) : length(chunk, first);
      int const outputs = targets(direct);
      worker_->sync();  // nobody needs the notes any more
      RINGLET_NO_UNROLL
      for (int r = static_cast<int>(worker_->rank()); r < lane_->size; r += static_cast<int>(worker_->size()))
        lane_->notes[r] = ends(r, chunk, first, direct);
      worker_->sync();
      constexpr std::size_t N = detail::pack_size<T, typename arith::wire>;
      constexpr std::size_t M = detail::packs_at_once<T>;
      if constexpr (N == 0) {
        reduce_each(chunk, n, outputs);
      } else {
        auto part = detail::packed_part::find<N>(static_cast<T const*>(lane_->notes[0].from), n);
        bool aligned = true;
        RINGLET_NO_UNROLL
        for (int r = 0; r < lane_->size; ++r)
          aligned = aligned && detail::fits<N>(static_cast<T const*>(lane_->notes[r].from) + part.begin) &&
                    (r >= outputs || detail::fits<N>(static_cast<T*>(lane_->notes[r].to) + part.begin));
        if (aligned)
          detail::share<M>(*worker_, (part.end - part.begin) / N,
                           detail::reduce_packs<N, arith>{lane_, &body_->how, chunk, outputs, part.begin});
        else
          part = {n, n, n};
        part.rest([&](std::size_t begin, std::size_t count) {
          detail::share<1>(*worker_, count, detail::reduce_packs<1, arith>{lane_, &body_->how, chunk, outputs, begin});
        });
      }
    }
    // The same for types of an odd size.
    RINGLET_HD void reduce_each(int chunk, std::size_t n, int outputs) const {
      using operands = detail::operands<arith>;
      auto const of = [&](int k) { return static_cast<T const*>(lane_->notes[(chunk + k) % lane_->size].from); };
      RINGLET_NO_UNROLL
      for (std::size_t i = worker_->rank(); i < n; i += worker_->size()) {
        auto sum = detail::folded(operands{nullptr, nullptr, nullptr, of(1)}, i, body_->how, lane_->size == 1);
        RINGLET_NO_UNROLL
        for (int k = 2; k <= lane_->size; ++k) {
          auto const got = sum;
          sum = detail::folded(operands{nullptr, nullptr, &got, of(k) + i}, 0, body_->how, k == lane_->size);
        }
        for (int t = 0; t < outputs; ++t) static_cast<T*>(lane_->notes[t].to)[i] = static_cast<T>(sum);
      }
    }
    RINGLET_HD void copy(T* to, T const* from, std::size_t n) const {
      if (to != from) detail::copy(*worker_, static_cast<T*>(nullptr), to, from, n, false);
    }

    // A value that nobody adds to, as it is after it has travelled.
    RINGLET_HD void land(T* to, T const* from, std::size_t n) const {
      using wire = typename arith::wire;
      combine(*worker_, static_cast<wire*>(nullptr), to, static_cast<wire const*>(nullptr), from, n, body_->how, true);
    }

    RINGLET_HD int me() const { return lane_->rank; }
    // Where this block's share of a chunk begins, in the chunk and in the whole buffer.
    RINGLET_HD partition shares(int chunk) const {
      return {body_->at.chunks.length(static_cast<std::size_t>(chunk)), blocks_};
    }
    RINGLET_HD std::size_t in_chunk(int chunk) const { return shares(chunk).offset(block_); }
    RINGLET_HD std::size_t begin(int chunk) const {
      return body_->at.chunks.offset(static_cast<std::size_t>(chunk)) + in_chunk(chunk);
    }
    // Elements of the share that are in the round which begins with its element `first`.
    RINGLET_HD std::size_t length(int chunk, std::size_t first) const {
      std::size_t const all = shares(chunk).length(block_), left = first < all ? all - first : 0;
      return left < row_ ? left : row_;
    }
    // Part of a chunk on a rank's stage, aligned like its place in the whole buffer.
    RINGLET_HD T* row(int peer, int chunk, std::size_t first) const {
      std::byte* const at =
          lane_->places[peer].stage + shots_ % 2 * lane_->stage_bytes + static_cast<std::size_t>(chunk) * row_bytes_;
      constexpr std::size_t N = detail::pack_size<T>;
      if constexpr (N > 1) return reinterpret_cast<T*>(at) + (begin(chunk) + first) % N;
      return reinterpret_cast<T*>(at);
    }
    RINGLET_HD T const* input_of(int peer) const {
      if (peer == me()) return body_->at.input;
      return reinterpret_cast<T const*>(at(peer, gathering_.shown(peer).input));
    }
    RINGLET_HD T* output_of(int peer) const {
      if (peer == me()) return body_->at.output;
      return reinterpret_cast<T*>(at(peer, gathering_.shown(peer).output));
    }
    RINGLET_HD std::byte* at(int peer, position where) const {
      return body_->windows[(where.window - 1) * most_device_peers + static_cast<unsigned>(peer)] + where.offset;
    }

    struct keep_count {
      device_lane* lane;
      std::uint64_t shots;
      RINGLET_HD bool operator()() const {
        lane->shots = shots;
        return true;
      }
    };

    direct_kernel const* body_;
    W const* worker_;
    device_lane* lane_;
    unsigned block_, blocks_;
    std::uint64_t shots_;
    std::size_t row_bytes_, row_;
    detail::gathering<W> gathering_;
  };
};

/// A collective on large buffers, as a kernel body: directly in the others' memory where all of it is in reach, else by
/// the ring.
/// @tparam What the collective
/// @tparam T the element
/// @tparam Op the operator; as for `direct_kernel`
template <collective What, class T, class Op>
struct direct_or_ring_kernel {
  direct_kernel<What, T, Op> direct;
  ring_kernel<What, T, Op> ring;

  RINGLET_ANY_EXEC
  template <kernel_worker W>
  RINGLET_HD void operator()(W const& worker, unsigned block, unsigned blocks) const {
    if (!direct.try_direct(worker, block, blocks)) ring(worker, block, blocks);
  }
};

}  // namespace ringlet
