// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <atomic>
#include <concepts>
#include <thread>

#include "ringlet/communicator.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/transport.hpp"

namespace ringlet {

/// What a progress_thread can drive: an operation, or a bucketer.
template <class W>
concept drivable = requires(W& w) {
  { w.poll() }
  noexcept->std::same_as<status>;
  { w.wait() } -> std::same_as<void>;
};

/// A thread that polls an operation or a bucketer, so that its caller computes undisturbed.
///
/// Between `start` and `wait` the communicator belongs to this thread: the caller leaves it alone, but may call `ready`
/// of a bucketer. One thread serves any number of steps; between them, and while a bucketer has nothing under way, it
/// sleeps.
///
/// It pays where a rank has a core to spare for it: then the exchange costs the computation only memory bandwidth.
/// Where it has none, this thread takes time from the computation while it waits for peers; there, poll between pieces
/// of work.
///
/// @code
/// ringlet::progress_thread progress(comm, buckets);
/// for (...) {  // steps
///   progress.start();
///   for (...) backward(layer), buckets.ready(layer);
///   progress.wait();
/// }
/// @endcode
/// @tparam X the transport
/// @tparam Work what it drives, which must outlive it
template <transport X, drivable Work>
class progress_thread {
 public:
  /// @param comm the communicator of what it drives
  /// @throws std::system_error when there can be no further thread
  template <int Size>
  progress_thread(communicator<X, Size>& comm, Work& work)
      : session_(comm.session()), work_(work), thread_([this] { run(); }) {}
  progress_thread(progress_thread const&) = delete;
  /// Ends the thread; what it drove is the caller's again, as far as it has come.
  ~progress_thread() {
    take_back();
    turn_.store(over, std::memory_order_release);
    turn_.notify_one();
    thread_.join();
  }

  /// Lets the thread drive.
  void start() {
    turn_.store(its, std::memory_order_release);
    turn_.notify_one();
  }
  /// Takes the communicator back, and waits here for what is left to do.
  /// @throws error what `wait` of an operation or bucketer throws
  void wait() {
    take_back();
    work_.wait();
  }

 private:
  // Whose turn it is to use the communicator. Both change it: its -> back is the caller's wish, any -> callers the
  // answer.
  enum turn { callers, its, back, over };

  void take_back() {
    turn now = its;
    if (turn_.compare_exchange_strong(now, back, std::memory_order_acquire)) {
      if constexpr (requires { work_.wake(); }) work_.wake();
      turn_.wait(back, std::memory_order_acquire);
    }
  }
  void run() {
    for (turn_.wait(callers, std::memory_order_acquire); turn_.load(std::memory_order_acquire) != over;
         turn_.wait(callers, std::memory_order_acquire)) {
      drive();
      turn_.store(callers, std::memory_order_release);
      turn_.notify_one();
    }
  }
  // Polls as `collective_operation::wait` does. Whose turn it is it asks after a poll: only then has it not missed a
  // `wake`.
  void drive() {
    int left = session_.pauses();
    unsigned spent = 0;
    while (work_.poll() == status::pending && turn_.load(std::memory_order_relaxed) == its) {
      if (rested())
        left = session_.pauses(), spent = 0;
      else if (left-- > 0)
        session_.pause();
      else
        session_.linger(spent++);
    }
  }
  // Sleeps if there is nothing to poll for.
  bool rested() {
    if constexpr (requires { work_.doze(); })
      return work_.doze();
    else
      return false;
  }

  detail::session<X>& session_;
  Work& work_;
  std::atomic<turn> turn_ = callers;
  std::thread thread_;
};

}  // namespace ringlet
