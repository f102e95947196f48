// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ringlet/call.hpp"
#include "ringlet/combine.hpp"
#include "ringlet/config.hpp"
#include "ringlet/cuda_kernels.hpp"
#include "ringlet/kernel.hpp"
#include "ringlet/link.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/transport/device_runtime.hpp"
#include "ringlet/transport/device_segment.hpp"
#include "ringlet/transport/slot_ring.hpp"
#include "ringlet/worker.hpp"

// The ring on ranks that share a device. A kernel that waits for another rank would keep the device from it; so the
// stream waits, between small kernels, one for each step. The engine is the same as everywhere: `ring_operation` runs
// on the host, over a link that always has room, for it only puts the waiting into the stream, and with a worker that
// puts the combining there.

namespace ringlet {

namespace detail {

// Whether the caller, one of n, is the last to come; makes ready for the next n.
RINGLET_HD inline bool last_to_come(std::uint32_t* arrived, std::uint32_t n) {
#if defined(__CUDA_ARCH__)
  std::uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(arrived) : "memory");
  if (before + 1 != n) return false;
  *arrived = 0;
#else
  if (__atomic_fetch_add(arrived, 1u, __ATOMIC_ACQ_REL) + 1 != n) return false;
  __atomic_store_n(arrived, 0u, __ATOMIC_RELAXED);
#endif
  return true;
}

}  // namespace detail

/// One step with one slice, as a kernel body: combines, and when all blocks have, tells the neighbours.
/// @tparam Arithmetic `arithmetic<T, Op>`
template <class Arithmetic>
struct step_kernel {
  typename Arithmetic::wire* out;  ///< these four as for `combine`, null where absent
  typename Arithmetic::element* result;
  typename Arithmetic::wire const* got;
  typename Arithmetic::element const* own;
  std::size_t count;
  Arithmetic how;
  bool last;
  word* filled;  ///< the next rank's, to be set to `sent`; null where nothing is sent
  std::uint64_t sent;
  word* credit;  ///< the previous rank's, to be set to `received`; null where nothing was received
  std::uint64_t received;
  call called;
  int previous;           ///< the previous rank
  call* announces;        ///< where to say what this rank called; null: nowhere
  call const* announced;  ///< what the previous rank says that it called; null: nothing
  lone_word* stop;        ///< not 0 once this rank is to give up: then nothing is done
  kernel_report* report;
  std::uint32_t* arrived;  ///< `cuda_ipc::blocks_arrived()`

  RINGLET_ANY_EXEC
  template <kernel_worker W>
  RINGLET_HD void operator()(W const& worker, unsigned block, unsigned blocks) const {
    if (!worker.leader(may{this})) return;
    // Blocks begin at multiples of 16 elements, and so of 16 bytes where the whole does.
    partition const shares{(count + 15) / 16, blocks};
    std::size_t const begin = shares.offset(block) * 16, end = shares.offset(block + 1) * 16;
    std::size_t const n = (end < count ? end : count) - (begin < count ? begin : count);
    auto const part = detail::operands<Arithmetic>{out, result, got, own}.from(begin);
    combine(worker, part.wire, part.result, part.got, part.own, n, how, last);
    worker.sync();
    worker.leader(tell{this, blocks});
  }

 private:
  struct may {
    step_kernel const* self;
    RINGLET_HD bool operator()() const {
      if (self->stop->is.acquire() != 0 || self->report->said.acquire() != 0) return false;
      if (self->announced == nullptr || *self->announced == self->called) return true;
      self->report->theirs = *self->announced;
      self->report->said.release(kernel_report::verdict{kernel_fault::differs, self->previous, 0}.pack());
      return false;
    }
  };
  struct tell {
    step_kernel const* self;
    unsigned blocks;
    RINGLET_HD bool operator()() const {
      if (!detail::last_to_come(self->arrived, blocks)) return false;
      if (self->announces != nullptr) *self->announces = self->called;
      if (self->filled != nullptr) self->filled->release(self->sent);
      if (self->credit != nullptr) self->credit->release(self->received);
      return true;
    }
  };
};

/// The worker of `stream_steps`: it combines by putting a kernel into the stream.
template <class Steps>
class stream_worker : public this_thread {
 public:
  explicit stream_worker(Steps& steps) : steps_(&steps) {}
  Steps& steps() const { return *steps_; }

 private:
  Steps* steps_;
};

/// A link whose slices are filled and emptied by a stream: the host runs ahead of it. It counts where it stands in the
/// queues' order; the device is told with the kernel of each step.
/// @tparam R the runtime, of which it asks `wait_value` and `launch`
/// @tparam Arithmetic `arithmetic<T, Op>`
template <class R, class Arithmetic>
class stream_steps {
  using body = step_kernel<Arithmetic>;

 public:
  class sender {
   public:
    template <class T>
    slice<T> try_acquire(placement where) {
      steps_->flush();
      slot_ring<> const& q = steps_->next_;
      if (steps_->sent_ >= q.slot_count) R::wait_value(steps_->stream_, q.credit, steps_->sent_ + 1 - q.slot_count);
      return detail::aligned_like(at<T>(q, steps_->sent_, where), where);
    }
    void commit() {
      body& b = *steps_->pending_;
      slot_ring<> const& q = steps_->next_;
      if (!steps_->announced_) b.announces = reinterpret_cast<call*>(steps_->slot(q, steps_->sent_));
      steps_->announced_ = true;
      b.filled = q.filled;
      b.sent = ++steps_->sent_;
    }
    bool drained() {
      steps_->flush();
      return true;
    }

   private:
    friend stream_steps;
    explicit sender(stream_steps* s) : steps_(s) {}
    stream_steps* steps_;
  };
  class receiver {
   public:
    template <class T>
    slice<T> try_peek(placement where) {
      steps_->flush();
      slot_ring<> const& q = steps_->prev_;
      R::wait_value(steps_->stream_, q.filled, steps_->received_ + 1);
      return detail::aligned_like(at<T>(q, steps_->received_, where), where);
    }
    void release() {
      body& b = *steps_->pending_;
      slot_ring<> const& q = steps_->prev_;
      if (!steps_->compared_) b.announced = reinterpret_cast<call const*>(steps_->slot(q, steps_->received_));
      steps_->compared_ = true;
      b.credit = q.credit;
      b.received = ++steps_->received_;
    }

   private:
    friend stream_steps;
    explicit receiver(stream_steps* s) : steps_(s) {}
    stream_steps* steps_;
  };

  /// @param lane the rank's, with addresses of the device
  /// @param sent how many slices this rank has sent before, @param received how many it has received; both are kept up
  ///   to date
  /// @param blocks the most blocks of a step, @param threads of each
  stream_steps(typename R::stream s, device_lane const& lane, std::uint64_t& sent, std::uint64_t& received,
               call const& called, std::uint32_t* arrived, unsigned blocks, unsigned threads)
      : stream_(s),
        next_(lane.next),
        prev_(lane.prev),
        sent_(sent),
        received_(received),
        called_(called),
        previous_((lane.rank + lane.size - 1) % lane.size),
        stop_(lane.stop),
        report_(lane.report),
        arrived_(arrived),
        blocks_(blocks),
        threads_(threads) {}
  stream_steps(stream_steps const&) = delete;

  sender& next() { return sender_; }
  receiver& prev() { return receiver_; }
  bool broken() const { return false; }  // the host never waits here

  /// What `combine` is for this worker: the step's kernel follows once it is known what it has to tell.
  void combine(typename Arithmetic::wire* out, typename Arithmetic::element* result,
               typename Arithmetic::wire const* got, typename Arithmetic::element const* own, std::size_t count,
               Arithmetic const& how, bool last) {
    flush();
    pending_.emplace(body{out, result, got, own, count, how, last, nullptr, 0, nullptr, 0, called_, previous_, nullptr,
                          nullptr, stop_, report_, arrived_});
  }

 private:
  template <class T>
  static slice<T> at(slot_ring<> const& q, std::uint64_t k, placement where) {
    return {reinterpret_cast<T*>(slot(q, k) + slot_ring<>::header), where.count};
  }
  static std::byte* slot(slot_ring<> const& q, std::uint64_t k) {
    return q.slots + k % q.slot_count * (slot_ring<>::header + q.slot_bytes);
  }
  void flush() {
    if (!pending_) return;
    std::size_t const a_block = std::size_t{16} * 4 * threads_;  // bytes that are worth one
    std::size_t const worth = pending_->count * sizeof(typename Arithmetic::element) / a_block;
    R::launch(stream_, static_cast<unsigned>(std::clamp<std::size_t>(worth, 1, blocks_)), threads_, *pending_);
    pending_.reset();
  }

  typename R::stream stream_;
  slot_ring<> next_, prev_;
  std::uint64_t &sent_, &received_;
  call called_;
  int previous_;
  lone_word* stop_;
  kernel_report* report_;
  std::uint32_t* arrived_;
  unsigned blocks_, threads_;
  std::optional<body> pending_;
  bool announced_ = false, compared_ = false;
  sender sender_{this};
  receiver receiver_{this};
};

/// What the engine calls with a `stream_worker`: chosen before the general one, since it is for this worker alone.
template <class Steps, class Arithmetic>
void combine(stream_worker<Steps> w, typename Arithmetic::wire* out, typename Arithmetic::element* result,
             typename Arithmetic::wire const* got, typename Arithmetic::element const* own, std::size_t n,
             Arithmetic const& how, bool last, bool = false) {
  w.steps().combine(out, result, got, own, n, how, last);
}

}  // namespace ringlet
