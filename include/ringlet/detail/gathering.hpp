// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>

#include "ringlet/config.hpp"
#include "ringlet/cuda_kernels.hpp"
#include "ringlet/kernel.hpp"
#include "ringlet/transport/device_segment.hpp"

// What a direct kernel is made of: meetings of blocks, and the loop that adds up what all ranks give.

namespace ringlet::detail {

// Block b of every rank meets block b of all the others.
template <kernel_worker W>
class gathering {
 public:
  RINGLET_HD gathering(W const& worker, device_lane& lane, std::uint64_t patience)
      : worker_(&worker), lane_(&lane), patience_(patience), number_(lane.meetings) {}

  // Returns when all have come: what each block wrote before is then seen by all. With a board, all show theirs, and
  // must have called the same. False where that is not so, or somebody does not come: then the lane has given up.
  RINGLET_HD bool meet(shown_call const* show = nullptr) {
    ++number_;
    worker_->sync();  // the whole block has written what it had to write
    int const first = static_cast<int>(worker_->rank()), step = static_cast<int>(worker_->size());
    RINGLET_NO_UNROLL
    for (int peer = first; peer < lane_->size; peer += step) {
      device_board& its = board(peer, lane_->rank);
      if (show != nullptr) its.shown = *show;
      its.published.release(number_);
    }
    std::uint64_t const since = device_clock();
    RINGLET_NO_UNROLL
    for (int peer = first; peer < lane_->size; peer += step) await(board(lane_->rank, peer).published, since);
    worker_->sync();  // each member has waited for some
    return worker_->leader(all_came{this, show});
  }
  // What a rank showed in this meeting. It stays as it is until the next meeting but one.
  RINGLET_HD shown_call const& shown(int peer) const { return board(lane_->rank, peer).shown; }

 private:
  // The board at one rank that another one writes. There are two, used in turn: whoever comes to meeting k+2 knows that
  // all came to k+1, and so have read what they needed of k.
  RINGLET_HD device_board& board(int at, int from) const {
    return lane_->places[at].boards[static_cast<int>(number_ % 2) * lane_->size + from];
  }
  RINGLET_HD void await(word const& published, std::uint64_t since) const {
    RINGLET_NO_UNROLL
    for (unsigned k = 0; published.acquire() != number_; ++k) {
      if (hopeless(*lane_, k, since, patience_)) return;  // the leader will see it
      worker_->pause(k);
    }
  }
  struct all_came {
    gathering const* self;
    shown_call const* show;
    RINGLET_HD bool operator()() const {
      device_lane& lane = *self->lane_;
      RINGLET_NO_UNROLL
      for (int peer = 0; peer < lane.size; ++peer)
        if (self->board(lane.rank, peer).published.acquire() != self->number_) {
          bool const stopped = lane.stop->is.acquire() != 0;
          return give_up(lane, stopped ? kernel_fault::stopped : kernel_fault::timed_out, stopped ? -1 : peer, 0);
        }
      RINGLET_NO_UNROLL
      for (int peer = 0; show != nullptr && peer < lane.size; ++peer)
        if (!(self->shown(peer).called == show->called)) {
          lane.report->theirs = self->shown(peer).called;
          return give_up(lane, kernel_fault::differs, peer, 0);
        }
      lane.meetings = self->number_;
      return true;
    }
  };

  W const* worker_;
  device_lane* lane_;
  std::uint64_t patience_, number_;
};

// Adds up packs, or elements where N is 1, from all ranks in the order in which a ring would: rank c+1 first, rank c,
// the chunk's owner, last. So the choice of algorithm never changes the bits. The values go to the first `targets` of
// the notes.
template <std::size_t N, class Arithmetic>
struct reduce_packs {
  using W = typename Arithmetic::wire;
  using T = typename Arithmetic::element;

  device_lane const* lane;
  Arithmetic const* how;
  int chunk, targets;
  std::size_t begin;

  RINGLET_ANY_EXEC
  template <std::size_t M>
  RINGLET_HD void operator()(at_once<M> i) const {
    int const size = lane->size;
    int peer = chunk + 1 < size ? chunk + 1 : 0;
    pack<T, N> own[M]{};
    pack<W, N> sum[M]{};
    load(own, peer, i);
    RINGLET_UNROLL
    for (std::size_t m = 0; m < M; ++m)
      if (i.has(m)) sum[m] = folded<N>(static_cast<pack<W, N>*>(nullptr), own + m, *how, size == 1);
    RINGLET_NO_UNROLL
    for (int k = 2; k <= size; ++k) {
      peer = peer + 1 < size ? peer + 1 : 0;
      load(own, peer, i);
      RINGLET_UNROLL
      for (std::size_t m = 0; m < M; ++m)
        if (i.has(m)) sum[m] = folded<N>(sum + m, own + m, *how, k == size);
    }
    RINGLET_NO_UNROLL
    for (int t = 0; t < targets; ++t) {
      T* const to = static_cast<T*>(lane->notes[t].to) + begin;
      RINGLET_UNROLL
      for (std::size_t m = 0; m < M; ++m)
        if (i.has(m)) converted_to<T>(sum[m]).store(to + i[m] * N);
    }
  }
  template <std::size_t M>
  RINGLET_HD void load(pack<T, N> (&own)[M], int peer, at_once<M> i) const {
    T const* const from = static_cast<T const*>(lane->notes[peer].from) + begin;
    RINGLET_UNROLL
    for (std::size_t m = 0; m < M; ++m)
      if (i.has(m)) own[m] = pack<T, N>::load(from + i[m] * N);
  }
};

}  // namespace ringlet::detail
