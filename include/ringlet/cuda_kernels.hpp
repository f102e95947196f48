// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "ringlet/call.hpp"
#include "ringlet/config.hpp"
#include "ringlet/kernel.hpp"
#include "ringlet/link.hpp"
#include "ringlet/operation.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/schedule.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/transport/device_segment.hpp"
#include "ringlet/transport/slot_ring.hpp"

// Collectives as kernel bodies: what cuda_ipc starts on streams. They are ordinary code: host threads run it, too.

namespace ringlet {

namespace detail {

// Whether a wait, at its k-th poll in vain, should look whether its rank is to stop: that may be told in memory of the
// host, to which the way is much longer than to what is waited for.
RINGLET_HD constexpr bool time_to_look(unsigned k) { return k % 64 == 63; }

// Whether that poll is the last: this rank is to stop, or the wait has taken too long.
RINGLET_HD inline bool hopeless(device_lane const& lane, unsigned k, std::uint64_t since, std::uint64_t patience) {
  return (time_to_look(k) && lane.stop->is.acquire() != 0) || device_clock() - since > patience;
}

// A slice's place in a slot, moved towards the header by as much as makes it aligned like its place in the whole
// buffer: then both can be accessed in packs. A slot's header has room for it.
template <class T>
RINGLET_HD slice<T> aligned_like(slice<T> at, placement where) {
  constexpr std::size_t N = pack_size<T>;
  static_assert(sizeof(call) + 16 <= slot_ring<>::header);
  if constexpr (N > 1)
    if (at) at.data -= (N - where.offset % N) % N;
  return at;
}

// The link of a lane, for as long as one launch. Only the leader of the block uses it.
class device_link {
 public:
  struct sender : slot_ring<>::sender {
    using slot_ring<>::sender::sender;
    template <class T>
    RINGLET_HD slice<T> try_acquire(placement where) {
      return aligned_like(slot_ring<>::sender::try_acquire<T>(where), where);
    }
  };
  struct receiver : slot_ring<>::receiver {
    using slot_ring<>::receiver::receiver;
    template <class T>
    RINGLET_HD slice<T> try_peek(placement where) {
      return aligned_like(slot_ring<>::receiver::try_peek<T>(where), where);
    }
  };

  RINGLET_HD explicit device_link(device_lane const& lane)
      : next_(lane.next, lane.sent), prev_(lane.prev, lane.received), stop_(lane.stop) {}
  RINGLET_HD sender& next() { return next_; }
  RINGLET_HD receiver& prev() { return prev_; }
  RINGLET_HD bool broken() const { return stopped_; }
  // Looks whether this rank is to stop, now and then in a wait.
  RINGLET_HD bool look(unsigned k) {
    if (time_to_look(k)) stopped_ = stop_->is.acquire() != 0;
    return stopped_;
  }

 private:
  sender next_;
  receiver prev_;
  lone_word const* stop_;
  bool stopped_ = false;
};

// What only the leader of a block does.
struct lane_failed {
  device_lane const* lane;
  RINGLET_HD bool operator()() const { return lane->failed.acquire() != 0; }
};

// What the leader of a block has for itself. It lies in what the block has in common, since there it takes the other
// members no registers.
struct leaders_own {
  device_link link;
  // How far the operation was when the leader last looked, when that was, and which of the two things that it may wait
  // for were there: a slice to take, room for one to send.
  std::size_t moves = 0;
  std::uint64_t since = device_clock();
  bool slice = false, room = false;

  RINGLET_HD explicit leaders_own(device_lane const& lane) : link(lane) {}
};
static_assert(sizeof(leaders_own) <= common_bytes);

// False when the lane has failed before.
struct begin_lane {
  device_lane const* lane;
  void* place;
  RINGLET_HD bool operator()() const {
    ::new (place) leaders_own(*lane);
    return lane->failed.acquire() == 0;
  }
};

// After a poll in vain: waits until there is more than before. False when that has taken too long. The whole block
// waits for one thread, which is cheaper than to poll with all.
template <class Operation, class W>
struct await_more {
  Operation const* run;
  leaders_own* own;
  W const* worker;
  std::uint64_t patience;

  RINGLET_ANY_EXEC
  RINGLET_HD bool operator()() const {
    if (own->moves != run->moves()) {
      own->moves = run->moves();
      own->since = device_clock();
      own->slice = own->room = false;
    }
    placement const any{0, 0, false};
    RINGLET_NO_UNROLL
    for (unsigned k = 0;; ++k) {
      bool const slice = static_cast<bool>(own->link.prev().template try_peek<std::byte>(any));
      bool const room = static_cast<bool>(own->link.next().template try_acquire<std::byte>(any));
      bool const more = (slice && !own->slice) || (room && !own->room);
      own->slice = slice;
      own->room = room;
      if (more || own->link.look(k)) return true;
      if (device_clock() - own->since > patience) return false;
      worker->pause(k);
    }
  }
};

// Says on all sides that this lane has given up.
// @param peer the rank at fault, if it is known
RINGLET_HD inline bool give_up(device_lane& lane, kernel_fault why, int peer, int step) {
  std::uint64_t const told = lane.stop->is.acquire();
  std::uint64_t const teller = told != 0 ? told : static_cast<std::uint64_t>(lane.rank) + 1;
  lane.failed.release(1);
  lane.report->said.release(kernel_report::verdict{why, peer >= 0 ? peer : static_cast<int>(told) - 1, step}.pack());
  lane.stop->is.release(teller);
  lane.next_stop->is.release(teller);
  lane.prev_stop->is.release(teller);
  return false;
}

template <class Operation>
struct end_lane {
  Operation const* run;
  leaders_own* own;
  device_lane* lane;
  status how;

  RINGLET_ANY_EXEC
  RINGLET_HD bool operator()() const {
    lane->sent = own->link.next().count();
    lane->received = own->link.prev().count();
    if (how == status::ready) return true;
    int const step = run->step_reached();
    if (call const* theirs = run->disagreement()) {
      lane->report->theirs = *theirs;
      return give_up(*lane, kernel_fault::differs, (lane->rank + lane->size - 1) % lane->size, step);
    }
    return give_up(*lane, how == status::pending ? kernel_fault::timed_out : kernel_fault::stopped, -1, step);
  }
};

}  // namespace detail

/// A collective by the ring, as a kernel body: block b runs lane b, with `ring_operation` as everywhere.
/// @tparam What the collective
/// @tparam T the element
/// @tparam Op the operator
template <collective What, class T, class Op>
struct ring_kernel {
  device_lane* lanes;  ///< of this rank, one for each block
  buffers<T> at;       ///< `lane` and `lanes` are not looked at
  pipelining pipe;
  arithmetic<T, Op> how;
  call called;
  std::uint64_t patience;  ///< nanoseconds without progress after which it gives up

  RINGLET_ANY_EXEC
  template <kernel_worker W>
  RINGLET_HD void operator()(W const& worker, unsigned block, unsigned blocks) const {
    device_lane& lane = lanes[block];
    if (!worker.leader(detail::begin_lane{&lane, worker.common()})) return;
    auto& own = *static_cast<detail::leaders_own*>(worker.common());
    buffers<T> mine = at;
    mine.lane = block;
    mine.lanes = blocks;
    using operation = ring_operation<ring_schedule<What>, arithmetic<T, Op>, detail::device_link, W>;
    operation run(ring_schedule<What>{lane.rank, lane.size}, own.link, mine, pipe, how, &called, worker);
    status now;
    while ((now = run.poll()) == status::pending)
      if (!worker.leader(detail::await_more<operation, W>{&run, &own, &worker, patience})) break;
    worker.leader(detail::end_lane<operation>{&run, &own, &lane, now});
  }
};

/// The same bodies for several ranks in one launch: for ranks that share a device, all of whose blocks must be there at
/// the same time.
/// @tparam Body a rank's
template <kernel_body Body>
struct all_ranks {
  Body const* ranks;     ///< in memory of the device
  unsigned blocks_each;  ///< a launch has so many for each rank

  RINGLET_ANY_EXEC
  template <kernel_worker W>
  RINGLET_HD void operator()(W const& worker, unsigned block, unsigned) const {
    ranks[block / blocks_each](worker, block % blocks_each, blocks_each);
  }
};

}  // namespace ringlet
