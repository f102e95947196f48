// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "ringlet/allocate.hpp"
#include "ringlet/collective_operation.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/config.hpp"
#include "ringlet/element.hpp"
#include "ringlet/error.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/schedule.hpp"
#include "ringlet/transport.hpp"

namespace ringlet {

/// How large buckets become, in bytes. Gradients are not cut: one that is larger travels alone. Between processes of
/// one machine, buckets that fit into a core's caches do best: their gradients are still there when the exchange
/// begins.
struct bucket_bytes {
  std::size_t first = std::size_t{256} << 10;  ///< small, so that the exchange begins early in the backward pass
  std::size_t others = std::size_t{1} << 20;
};

/// Which gradients travel together: a bucket takes gradients, one after the other, as long as they fit, and at least
/// one.
/// @param counts elements of each gradient, in the order in which they become ready
/// @param first elements that the first bucket holds
/// @param others elements that each of the others holds
/// @return for each bucket the number of gradients in it and in those before it
constexpr std::vector<std::size_t> plan_buckets(std::span<std::size_t const> counts, std::size_t first,
                                                std::size_t others) {
  std::vector<std::size_t> ends;
  std::size_t room = first;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (i != 0 && counts[i] > room) ends.push_back(i), room = others;
    room -= std::min(room, counts[i]);
  }
  if (!counts.empty()) ends.push_back(counts.size());
  return ends;
}

/// The gradients of a model, exchanged while the backward pass still computes.
///
/// It owns their memory, which all ranks can reach, so that nothing is copied; after its construction it allocates
/// nothing. A step is: write `gradient(i)`, say `ready(i)`, for each gradient once; `poll()` now and then in between;
/// `wait()`. Then all hold the reduction over all ranks, and the next step may begin. Gradients travel in buckets, and
/// buckets in their order: one starts when its gradients and those of all before it are ready, at the next poll. Ranks
/// need not agree in the order of their calls of `ready`, nor when they poll.
///
/// `ready` may come from any thread, while another polls. All else is for the one thread that uses the communicator. As
/// ranks start their buckets when they can, nothing else may be started on this communicator between the first `ready`
/// of a step and its `wait`; for that, `split` gives another one. It must go before its communicator does.
///
/// The results have the bits of one `all_reduce` a bucket.
/// @tparam T the element
/// @tparam X the transport
/// @tparam Op the operator, with its policies
template <element T, transport X, class Op = sum>
class bucketer {
 public:
  /// A collective: all ranks give the same. Most users call `make_bucketer`.
  /// @param counts elements of each gradient, in the order in which they become ready: the last layer's first
  /// @throws error(errc::out_of_memory, errc::mismatch) as `communicator::allocate` does
  template <int Size>
  bucketer(communicator<X, Size>& comm, std::span<std::size_t const> counts, Op op = {}, bucket_bytes bytes = {})
      : session_(comm.session()),
        op_(op),
        gradients_(counts.size()),
        memory_(comm.template allocate<T>(lay_out(counts, bytes))) {}
  bucketer(bucketer const&) = delete;
  /// An exchange that is not finished is cancelled, on all ranks.
  ~bucketer() { buckets_.clear(); }  // before their memory goes

  /// How many gradients there are.
  std::size_t size() const { return gradients_.size(); }
  /// A gradient's memory: zeroed at first, the same in all steps. From its `ready` until `wait` it belongs to the
  /// exchange.
  /// @throws error(errc::invalid_argument) when there is none of that number
  std::span<T> gradient(std::size_t i) const {
    check(i);
    return {memory_.data() + gradients_[i].offset, gradients_[i].count};
  }
  /// How many buckets there are.
  std::size_t buckets() const { return buckets_.size(); }
  /// What travels at once: the gradients of bucket `b`, b < buckets(), side by side in their order.
  std::span<T> bucket(std::size_t b) const { return {memory_.data() + buckets_[b].offset, buckets_[b].count}; }

  /// Says that a gradient is written. Any thread; never waits, and starts nothing: the next `poll` does.
  /// @throws error(errc::invalid_argument) for an unknown gradient, or one that is ready already in this step
  void ready(std::size_t i) {
    check(i);
    if (gradients_[i].ready.exchange(true, std::memory_order_release))
      throw error(errc::invalid_argument,
                  detail::words("gradient %zu is ready twice in one step: call wait() between steps", i));
    // Whoever sees 0 sees what all who counted down have written.
    if (buckets_[gradients_[i].bucket].missing.fetch_sub(1, std::memory_order_release) == 1) wake();
  }
  /// Starts what is complete, and goes as far as it can without waiting. `ready`: all gradients are exchanged.
  /// `failed`: `wait` throws the reason.
  status poll() noexcept {
    seen_ = news_.load(std::memory_order_acquire);
    if (now_ == status::failed) return now_;
    try {
      while (started_ < buckets_.size() && buckets_[started_].missing.load(std::memory_order_acquire) == 0) start();
    } catch (...) {
      why_ = std::current_exception();
      return now_ = status::failed;
    }
    if (started_ != 0) now_ = buckets_[started_ - 1].exchange->poll();  // drives those before it, too
    return now_ == status::ready && started_ != buckets_.size() ? status::pending : now_;
  }
  /// Waits until all gradients are exchanged, and ends the step.
  /// @throws error(errc::invalid_argument) naming the first gradient that is not ready; the step goes on
  /// @throws error what `collective_operation::wait` throws
  void wait() {
    if (why_ != nullptr) std::rethrow_exception(why_);
    for (std::size_t i = 0; i < size(); ++i)
      if (now_ != status::failed && !gradients_[i].ready.load(std::memory_order_acquire))
        throw error(errc::invalid_argument,
                    detail::words("gradient %zu of %zu is not ready: call ready() for each before wait()", i, size()));
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      if (b == started_) start();
      buckets_[b].exchange->wait();
    }
    started_ = 0;
    now_ = status::ready;
    for (part& g : gradients_) {
      g.ready.store(false, std::memory_order_relaxed);
      buckets_[g.bucket].missing.fetch_add(1, std::memory_order_relaxed);
    }
  }

  /// For a thread that does nothing but poll: when no exchange is under way, sleeps until `ready` completes a bucket or
  /// `wake` is called, if that has not happened since the last `poll` began.
  /// @return whether no exchange is under way
  bool doze() const {
    if (now_ == status::pending) return false;
    news_.wait(seen_, std::memory_order_acquire);
    return true;
  }
  /// Ends a `doze`. Any thread.
  void wake() {
    news_.fetch_add(1, std::memory_order_release);
    news_.notify_one();
  }

 private:
  struct part {
    std::size_t offset = 0, count = 0, bucket = 0;
    std::atomic<bool> ready = false;
  };
  struct message {
    std::size_t offset = 0, count = 0;
    std::atomic<std::size_t> missing = 0;  // gradients that are not ready
    // What is known of the number of ranks when compiling would save nothing here, but stand in the bucketer's type.
    std::optional<collective_operation<X, dynamic_size, collective::all_reduce, T, Op>> exchange;
  };

  // Places everything, and says how many elements it takes.
  std::size_t lay_out(std::span<std::size_t const> counts, bucket_bytes bytes) {
    // Buckets share no cache line: one is written while its neighbour is exchanged.
    constexpr std::size_t apart = interference / std::gcd(interference, sizeof(T));
    std::size_t offset = 0, i = 0;
    auto const ends = plan_buckets(counts, bytes.first / sizeof(T), bytes.others / sizeof(T));
    buckets_ = std::vector<message>(ends.size());
    for (std::size_t b = 0; b < ends.size(); ++b) {
      offset = (offset + apart - 1) / apart * apart;
      buckets_[b].offset = offset;
      for (; i < ends[b]; offset += counts[i++]) {
        gradients_[i].offset = offset, gradients_[i].count = counts[i], gradients_[i].bucket = b;
        buckets_[b].count += counts[i], ++buckets_[b].missing;
      }
    }
    return offset;
  }
  void check(std::size_t i) const {
    if (i >= size())
      throw error(errc::invalid_argument, detail::words("there is no gradient %zu: this bucketer has %zu", i, size()));
  }
  void start() {
    message& b = buckets_[started_];
    T* const data = memory_.data() + b.offset;
    b.exchange.emplace(session_, data, b.count, data, b.count, op_);
    ++started_;
  }

  detail::session<X>& session_;
  Op op_;
  std::vector<part> gradients_;
  std::vector<message> buckets_;
  allocation<T, X> memory_;
  std::size_t started_ = 0;     // buckets
  status now_ = status::ready;  // of those
  std::exception_ptr why_;      // when one could not be started
  std::uint32_t seen_ = 0;      // of the news, when last polled
  std::atomic<std::uint32_t> news_ = 0;
};

/// Makes a bucketer for the gradients of a model; a collective: see `bucketer`.
/// @tparam T the element
/// @param comm the communicator, which the bucketer uses alone during a step
/// @param counts elements of each gradient, in the order in which they become ready: the last layer's first
/// @param op the operator, with its policies
/// @param bytes how large buckets become
template <element T, class X, int Size, class Op = sum>
[[nodiscard]] bucketer<T, X, Op> make_bucketer(communicator<X, Size>& comm, std::span<std::size_t const> counts,
                                               Op op = {}, bucket_bytes bytes = {}) {
  return bucketer<T, X, Op>(comm, counts, op, bytes);
}

}  // namespace ringlet
