// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ringlet/call.hpp"
#include "ringlet/config.hpp"
#include "ringlet/cuda_kernels.hpp"
#include "ringlet/kernel.hpp"
#include "ringlet/operation.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/schedule.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/transport/device_segment.hpp"

namespace ringlet {

/// A small collective among ranks that reach each other's segments, as a kernel body: each rank sends what it gives to
/// those who need it as flagged lines, and computes all that it needs itself. Nobody meets and nobody is told that
/// something has come: the lines tell. That is as fast as it gets, and takes twice the bytes. It gives the bits that
/// the ring gives.
///
/// The lines of the whole buffer are dealt out to the blocks; a block's must fit into a half of its lane's (`lines`).
/// @tparam What the collective
/// @tparam T the element: of 1, 2, 4 or 8 bytes
/// @tparam Op the operator, as for `direct_kernel`
template <collective What, class T, class Op>
struct line_kernel {
  using arith = arithmetic<T, Op>;
  /// Elements in a line.
  static constexpr std::size_t in_line = sizeof(T) <= 8 && (sizeof(T) & (sizeof(T) - 1)) == 0 ? 8 / sizeof(T) : 0;
  static_assert(in_line != 0, "ringlet: a line holds elements of 1, 2, 4 or 8 bytes: use direct_kernel");
  static_assert(!arith::lifts || std::is_empty_v<typename arith::operation>,
                "ringlet: an operator with a value may lift differently on each rank: use ring_kernel");

  device_lane* lanes;  ///< of this rank, one for each block
  buffers<T> at;       ///< `lane` and `lanes` are not looked at
  arith how;
  call called;
  std::uint64_t patience;  ///< nanoseconds without progress after which it gives up

  /// Lines that the block with the most of them needs, of a lane's `line_count`.
  RINGLET_HD static constexpr std::size_t lines(partition chunks, unsigned blocks) {
    return 1 + partition{of_chunk(chunks) * chunks.parts, blocks}.longest();
  }

  RINGLET_ANY_EXEC
  template <kernel_worker W>
  RINGLET_HD void operator()(W const& worker, unsigned block, unsigned blocks) const {
    device_lane& lane = lanes[block];
    if (worker.leader(detail::lane_failed{&lane})) return;
    run<W> const now{*this, worker, lane, lane.letters + 1, {of_chunk(at.chunks) * at.chunks.parts, blocks}, block};
    now.send();
    now.compute();
    worker.sync();  // all members know whether their lines have come
    worker.leader(end<W>{&now, &lane});
  }

 private:
  // All chunks take as many lines as the longest: a line holds elements of one chunk.
  RINGLET_HD static constexpr std::size_t of_chunk(partition chunks) {
    return (chunks.longest() + in_line - 1) / in_line;
  }

  // Whether `to` needs what `from` gives to a chunk.
  RINGLET_HD static constexpr bool needs(int to, int from, int chunk) {
    return What == collective::all_reduce || chunk == (What == collective::all_gather ? from : to);
  }

  using pack = detail::pack<T, in_line>;

  // Where the elements of a line are.
  struct spot {
    int chunk;
    std::size_t in_chunk, in_whole, count;
  };

  template <class W>
  struct run {
    line_kernel const& body;
    W const& worker;
    device_lane& lane;
    std::uint64_t number;
    partition shares;
    unsigned block;

    // What lines of this call bear; never 0, which lines bear in the beginning.
    RINGLET_HD std::uint32_t flag() const { return static_cast<std::uint32_t>(number % 0xffffffff) + 1; }
    RINGLET_HD std::size_t count() const { return shares.length(block); }
    RINGLET_HD spot find(std::size_t line) const {
      std::size_t const i = shares.offset(block) + line, each = of_chunk(body.at.chunks);
      std::size_t const chunk = i / each, first = i % each * in_line, length = body.at.chunks.length(chunk);
      std::size_t const left = first < length ? length - first : 0;
      return {static_cast<int>(chunk), first, body.at.chunks.offset(chunk) + first, left < in_line ? left : in_line};
    }
    // The line from one rank at another. A half is used again two calls later: whoever sends that has heard from
    // everyone since, so all have ended with this.
    RINGLET_HD flagged_line& line(int to, int from, std::size_t i) const {
      std::size_t const half = (number % 2 * static_cast<unsigned>(lane.size) + static_cast<unsigned>(from));
      return lane.places[to].lines[half * lane.line_count + i];
    }
    RINGLET_HD pack mine(spot s) const {
      T const* const from = body.at.input + (whole_input(What) ? s.in_whole : s.in_chunk);
      pack p{};
      RINGLET_UNROLL
      for (std::size_t k = 0; k < in_line; ++k)
        if (k < s.count) p.at[k] = from[k];
      return p;
    }

    RINGLET_HD void send() const {
      if (worker.rank() == 0) send_line(0, digest(body.called), -1);
      // Flags come again after 2^32 calls. By then no line may still bear one from before, so at times all are written.
      bool const refresh = number % (std::uint64_t{1} << 30) < 2;
      std::size_t const all = refresh ? lane.line_count - 1 : count();
      RINGLET_NO_UNROLL
      for (std::size_t i = worker.rank(); i < all; i += worker.size()) {
        bool const used = i < count();
        spot const s = used ? find(i) : spot{};
        bool const gives = used && (What != collective::all_gather || s.chunk == lane.rank);
        send_line(i + 1, gives ? __builtin_bit_cast(std::uint64_t, mine(s)) : 0, refresh ? -1 : s.chunk);
      }
    }
    // To all who need what I give to a chunk; with -1, to all.
    RINGLET_HD void send_line(std::size_t i, std::uint64_t data, int chunk) const {
      RINGLET_NO_UNROLL
      for (int k = 1; k < lane.size; ++k) {
        int const peer = lane.after(k);
        if (chunk < 0 || needs(peer, lane.rank, chunk))
          line(peer, lane.rank, i).store(flagged_line::make(data, flag()));
      }
    }

    // What a rank gives to a line. When it does not come, the lane has failed, and to wait for others is hopeless.
    RINGLET_HD pack given(int from, std::size_t i, spot s, std::uint64_t since, bool& hopeless) const {
      if (from == lane.rank) return mine(s);
      flagged_line const& its = line(lane.rank, from, i + 1);
      flagged_line now = its.load();
      RINGLET_NO_UNROLL
      for (unsigned k = 0; !hopeless && !now.has(flag()); now = its.load(), ++k) {
        hopeless = detail::hopeless(lane, k, since, body.patience);
        if (hopeless) lane.failed.release(1);
        worker.pause(k);
      }
      return __builtin_bit_cast(pack, now.data());
    }
    RINGLET_HD void compute() const {
      std::uint64_t const since = device_clock();
      bool hopeless = false;
      RINGLET_NO_UNROLL
      for (std::size_t i = worker.rank(); i < count(); i += worker.size()) {
        spot const s = find(i);
        if (s.count == 0 || (What == collective::reduce_scatter && s.chunk != lane.rank)) continue;
        pack value;
        if constexpr (What == collective::all_gather) {
          pack const own = given(s.chunk, i, s, since, hopeless);
          value = detail::converted_to<T>(detail::folded<in_line>(nowhere(), &own, body.how, true));
        } else {
          // In the order of a ring: rank c+1 first, rank c, the chunk's owner, last.
          int from = s.chunk + 1 < lane.size ? s.chunk + 1 : 0;
          pack own = given(from, i, s, since, hopeless);
          auto sum = detail::folded<in_line>(nowhere(), &own, body.how, lane.size == 1);
          RINGLET_NO_UNROLL
          for (int k = 2; k <= lane.size; ++k) {
            from = from + 1 < lane.size ? from + 1 : 0;
            own = given(from, i, s, since, hopeless);
            sum = detail::folded<in_line>(&sum, &own, body.how, k == lane.size);
          }
          value = detail::converted_to<T>(sum);
        }
        T* const to = body.at.output + (whole_output(What) ? s.in_whole : s.in_chunk);
        RINGLET_UNROLL
        for (std::size_t k = 0; k < in_line; ++k)
          if (k < s.count) to[k] = value.at[k];
      }
    }
    RINGLET_HD static constexpr detail::pack<typename arith::wire, in_line> const* nowhere() { return nullptr; }
  };

  // Only the leader, after all members: whether everything has come, and from ranks that called the same.
  template <class W>
  struct end {
    run<W> const* now;
    device_lane* lane;
    RINGLET_HD bool operator()() const {
      std::uint64_t const since = device_clock();
      RINGLET_NO_UNROLL
      for (int peer = 0; peer < lane->size; ++peer) {
        if (peer == lane->rank) continue;
        flagged_line const& head = now->line(lane->rank, peer, 0);
        RINGLET_NO_UNROLL
        for (unsigned k = 0; !head.load().has(now->flag()); ++k) {
          bool const hopeless = lane->failed.acquire() != 0 || device_clock() - since > now->body.patience;
          if ((hopeless || detail::time_to_look(k)) && lane->stop->is.acquire() != 0)
            return detail::give_up(*lane, kernel_fault::stopped, -1, 0);
          if (hopeless) return detail::give_up(*lane, kernel_fault::timed_out, peer, 0);
          now->worker.pause(k);
        }
        if (head.load().data() != digest(now->body.called))
          return detail::give_up(*lane, kernel_fault::differs, peer, 0);
      }
      if (lane->failed.acquire() != 0) {
        bool const stopped = lane->stop->is.acquire() != 0;
        return detail::give_up(*lane, stopped ? kernel_fault::stopped : kernel_fault::timed_out, -1, 0);
      }
      lane->letters = now->number;
      return true;
    }
  };
};

}  // namespace ringlet
