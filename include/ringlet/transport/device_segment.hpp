// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ringlet/call.hpp"
#include "ringlet/config.hpp"
#include "ringlet/mapped_peers.hpp"
#include "ringlet/transport/slot_ring.hpp"

namespace ringlet {

/// The most ranks that can reach each other's segments. Rings may have more: there only neighbours need to.
inline constexpr int most_device_peers = 16;

/// Why a kernel gave up. The numbers stand in memory that host and device share.
enum class kernel_fault : std::uint8_t {
  none,
  timed_out,  ///< nothing came for as long as was given
  stopped,    ///< a rank had told this one to stop
  differs,    ///< another rank called something else
};

/// What a block says to the host when it gives up. All zeros while nothing has gone wrong.
struct alignas(interference) kernel_report {
  word said;    ///< 0, or what `verdict` holds; to be read with `acquire`, before what else is here
  call theirs;  ///< of `differs`: what that rank called

  /// The three things that fit into one word.
  struct verdict {
    kernel_fault why;
    int peer;  ///< the rank at fault or, of `stopped`, who said so; -1 if none is known
    int step;  ///< of the schedule, at which the block stood; 0 where there is none

    RINGLET_HD constexpr std::uint64_t pack() const {
      return static_cast<std::uint64_t>(why) | static_cast<std::uint64_t>(peer + 1) << 8 |
             static_cast<std::uint64_t>(step) << 32;
    }
    RINGLET_HD static constexpr verdict unpack(std::uint64_t said) {
      return {static_cast<kernel_fault>(said & 0xff), static_cast<int>(said >> 8 & 0xffffff) - 1,
              static_cast<int>(said >> 32)};
    }
  };
};

/// 8 bytes of data and, beside each half of them, a number that says whether it has come. Each half is stored whole, so
/// no flag, no order and no barrier is needed to send it.
struct alignas(16) flagged_line {
  std::uint64_t half[2];  ///< data in the lower 32 bits, the number in the upper ones

  RINGLET_HD static constexpr flagged_line make(std::uint64_t data, std::uint32_t number) {
    std::uint64_t const flag = static_cast<std::uint64_t>(number) << 32;
    return {{(data & 0xffffffff) | flag, data >> 32 | flag}};
  }
  /// Whether both halves bear the number.
  RINGLET_HD constexpr bool has(std::uint32_t number) const {
    return half[0] >> 32 == number && half[1] >> 32 == number;
  }
  RINGLET_HD constexpr std::uint64_t data() const { return (half[0] & 0xffffffff) | half[1] << 32; }

  /// What is there now; each half is whole.
  RINGLET_HD flagged_line load() const {
    flagged_line now;
#if defined(__CUDA_ARCH__)
    asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(now.half[0]), "=l"(now.half[1])
                 : "l"(this)
                 : "memory");
#else
    for (int i = 0; i < 2; ++i) now.half[i] = __atomic_load_n(&half[i], __ATOMIC_RELAXED);
#endif
    return now;
  }
  RINGLET_HD void store(flagged_line line) {
#if defined(__CUDA_ARCH__)
    asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(this), "l"(line.half[0]), "l"(line.half[1])
                 : "memory");
#else
    for (int i = 0; i < 2; ++i) __atomic_store_n(&half[i], line.half[i], __ATOMIC_RELAXED);
#endif
  }
};

/// A word that has its cache lines for itself.
struct alignas(interference) lone_word {
  word is;
};

/// What a rank's host called last, for the others' hosts. Its parts are words, so that whoever looks while it is
/// written can tell.
struct alignas(interference) latest_call {
  word number;
  word parts[sizeof(call) / sizeof(word)];

  /// Only the rank itself. Numbers grow, from 1.
  void say(std::uint64_t n, call const& c) {
    number.release(0);
    for (std::size_t i = 0; i < sizeof parts / sizeof(word); ++i) {
      std::uint64_t part;
      std::memcpy(&part, reinterpret_cast<char const*>(&c) + i * sizeof part, sizeof part);
      parts[i].release(part);
    }
    number.release(n);
  }
  /// Whether it is the rank's n-th call, and what that is.
  bool is(std::uint64_t n, call& c) const {
    if (n == 0 || number.acquire() != n) return false;
    for (std::size_t i = 0; i < sizeof parts / sizeof(word); ++i) {
      std::uint64_t const part = parts[i].acquire();
      std::memcpy(reinterpret_cast<char*>(&c) + i * sizeof part, &part, sizeof part);
    }
    return number.acquire() == n;
  }
};
static_assert(sizeof(call) % sizeof(word) == 0);

/// What a rank shows to the others when a collective begins: what it called, and where its buffers lie.
struct shown_call {
  call called;
  position input, output;  ///< window 0: others cannot reach it
};

/// Where a rank shows something to another one when their blocks meet.
struct alignas(interference) device_board {
  word published;  ///< the number of the latest meeting to which its writer has come
  shown_call shown;
};
static_assert(sizeof(device_board) == interference);

/// One lane of a rank as kernels know it: all that a block needs to reach its neighbours and its peers, with every
/// pointer as that rank's device sees it. It lies in memory of that device. The host fills it once; from then on the
/// block that runs the lane keeps its counts here, from one launch to the next. So a launch knows no numbers, and a
/// captured one can be repeated.
struct alignas(interference) device_lane {
  /// What this lane has in a rank's segment for all ranks to reach.
  struct place {
    device_board* boards =
        nullptr;  ///< two for each rank, which writes them in turn; null, as the others, if out of reach
    flagged_line* lines = nullptr;  ///< two halves of `line_count` for each rank, which writes them
    std::byte* stage = nullptr;     ///< two halves of `stage_bytes`; that rank itself writes them
  };

  slot_ring<> next;                 ///< the queue to the next rank
  slot_ring<> prev;                 ///< the queue from the previous rank
  place places[most_device_peers];  ///< by rank, this one's included
  std::size_t line_count = 0;       ///< flagged lines in a half, from each rank
  std::size_t stage_bytes = 0;      ///< of a half
  int rank = 0, size = 1;
  lone_word* stop = nullptr;                             ///< of this rank: 1 + who told it to give up, or 0
  lone_word *next_stop = nullptr, *prev_stop = nullptr;  ///< of its neighbours, to be told
  kernel_report* report = nullptr;                       ///< of this lane; the host can read it while kernels run

  /// The block's notes: where it reads what a rank gives, and where it writes.
  struct ends {
    void const* from;
    void* to;
  };
  ends notes[most_device_peers] = {};

  std::uint64_t sent = 0, received = 0;  ///< slices
  std::uint64_t meetings = 0;            ///< of this block with those of the others
  std::uint64_t shots = 0;               ///< uses of the stage
  std::uint64_t letters = 0;             ///< uses of the lines
  word failed{};                         ///< not 0: whatever is started here ends at once

  /// The k-th rank after this one, 0 <= k <= size: all begin with another one, so that not all are at rank 0 first.
  RINGLET_HD constexpr int after(int k) const { return rank + k < size ? rank + k : rank + k - size; }
};

/// Where everything lies in a segment, a block of device memory that a rank shares with the others. The same on all
/// ranks. A segment begins as all zeros, but for the lanes' views, which its own host writes at its start.
struct device_layout {
  int ranks = 1;
  unsigned lanes = 1;
  std::size_t slots = 4;                            ///< at least 2
  std::size_t slot_bytes = std::size_t{128} << 10;  ///< a multiple of 128
  std::size_t line_count = 512;                     ///< flagged lines that a rank can send to another on a lane
  /// Of a half of a lane's stage: a multiple of 128, at least 128 for each rank.
  std::size_t stage_bytes = std::size_t{64} << 10;

  /// Bytes of a segment.
  constexpr std::size_t bytes() const { return lane_offset(lanes); }
  /// Whether all ranks reach each other's segments, or neighbours only.
  constexpr bool all_reach() const { return ranks <= most_device_peers; }

  /// The view of one lane.
  /// @param rank whose
  /// @param segments by rank, as the device of `rank` sees them; null where it cannot. It must see its own and its
  ///   neighbours'
  device_lane view(int rank, unsigned lane, std::byte* const* segments) const {
    int const next = (rank + 1) % ranks, prev = (rank + ranks - 1) % ranks;
    device_lane v{queue(rank, next, lane, segments), queue(prev, rank, lane, segments), {}};
    for (int peer = 0; all_reach() && peer < ranks; ++peer)
      if (std::byte* const its = segments[peer]) v.places[peer] = place_in(its, lane);
    v.line_count = line_count;
    v.stage_bytes = stage_bytes;
    v.rank = rank;
    v.size = ranks;
    v.stop = stop_in(segments[rank]);
    v.next_stop = stop_in(segments[next]);
    v.prev_stop = stop_in(segments[prev]);
    v.report = reinterpret_cast<kernel_report*>(segments[rank] + reports_offset()) + lane;
    return v;
  }

  /// Bytes from a segment's start to the word that stops its rank, and to its lanes' reports. The views are at the
  /// start.
  constexpr std::size_t stop_offset() const { return lanes * sizeof(device_lane); }
  constexpr std::size_t reports_offset() const { return stop_offset() + sizeof(lone_word); }

 private:
  struct counters {
    lone_word filled, credit;
  };
  static constexpr std::size_t up(std::size_t bytes) {
    return (bytes + interference - 1) / interference * interference;
  }
  constexpr std::size_t boards_offset() const { return sizeof(counters); }
  constexpr std::size_t lines_offset() const { return boards_offset() + 2 * count() * sizeof(device_board); }
  constexpr std::size_t stage_offset() const {
    return lines_offset() + up(2 * count() * line_count * sizeof(flagged_line));
  }
  constexpr std::size_t slots_offset() const { return stage_offset() + 2 * stage_bytes; }
  constexpr std::size_t lane_bytes() const { return slots_offset() + slot_ring<>::bytes(slots, slot_bytes); }
  constexpr std::size_t lane_offset(unsigned lane) const {
    return reports_offset() + lanes * sizeof(kernel_report) + lane * lane_bytes();
  }
  constexpr std::size_t count() const { return all_reach() ? static_cast<std::size_t>(ranks) : 0; }

  counters* counters_in(std::byte* segment, unsigned lane) const {
    return reinterpret_cast<counters*>(segment + lane_offset(lane));
  }
  lone_word* stop_in(std::byte* segment) const { return reinterpret_cast<lone_word*>(segment + stop_offset()); }
  device_lane::place place_in(std::byte* segment, unsigned lane) const {
    std::byte* const at = segment + lane_offset(lane);
    return {reinterpret_cast<device_board*>(at + boards_offset()), reinterpret_cast<flagged_line*>(at + lines_offset()),
            at + stage_offset()};
  }
  slot_ring<> queue(int from, int to, unsigned lane, std::byte* const* segments) const {
    return {&counters_in(segments[to], lane)->filled.is, &counters_in(segments[from], lane)->credit.is,
            segments[to] + lane_offset(lane) + slots_offset(), slots, slot_bytes};
  }
};

}  // namespace ringlet
