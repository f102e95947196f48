// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "options.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/on_stream.hpp"
#include "transports.hpp"

namespace perf {

/// Where a rank's buffers are, and what follows from that: here, in memory of the host.
/// @tparam X the transport
template <class X>
class place {
 public:
  /// Calls `f` with two buffers of `count` elements.
  template <class T, class F>
  void with_buffers(ringlet::communicator<X>& comm, options const& o, std::size_t count, F&& f) {
    if (o.allocated) {
      auto const a = comm.template allocate<T>(count), b = comm.template allocate<T>(count);
      f(std::span<T>(a.data(), count), std::span<T>(b.data(), count));
    } else {
      std::vector<T> a(count), b(count);
      f(std::span<T>(a), std::span<T>(b));
    }
  }
  /// Element i becomes `f(i)`.
  template <class T, class F>
  void fill(std::span<T> to, F&& f) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = f(i);
  }
  /// Calls `f(i, element)` for all elements.
  template <class T, class F>
  void for_each(std::span<T const> from, F&& f) {
    for (std::size_t i = 0; i < from.size(); ++i) f(i, from[i]);
  }
  /// Calls `f` with what a collective's first arguments are.
  template <class F>
  void call(ringlet::communicator<X>& comm, F&& f) {
    f(comm);
  }
  /// Returns when what was called is done.
  void wait(ringlet::communicator<X>&) {}
};

/// On the rank's device: calls go into a stream, and the host reaches buffers by copies.
template <class X>
  requires has_devices<X>
class place<X> {
  using R = typename X::runtime;

 public:
  place() = default;
  place(place const&) = delete;
  ~place() { R::destroy(stream_); }
  template <class T, class F>
  void with_buffers(ringlet::communicator<X>& comm, options const& o, std::size_t count, F&& f) {
    if (o.allocated) {
      auto const a = comm.template allocate<T>(count), b = comm.template allocate<T>(count);
      f(std::span<T>(a.data(), count), std::span<T>(b.data(), count));
    } else {
      auto* const both = static_cast<T*>(R::allocate(2 * count * sizeof(T) + 1));
      f(std::span<T>(both, count), std::span<T>(both + count, count));
      R::release(both);
    }
  }
  template <class T, class F>
  void fill(std::span<T> to, F&& f) {
    std::vector<T> values(to.size());
    for (std::size_t i = 0; i < to.size(); ++i) values[i] = f(i);
    R::copy(stream_, to.data(), values.data(), to.size_bytes());
    R::synchronise(stream_);
  }
  template <class T, class F>
  void for_each(std::span<T const> from, F&& f) {
    std::vector<T> values(from.size());
    R::copy(stream_, values.data(), from.data(), from.size_bytes());
    R::synchronise(stream_);
    for (std::size_t i = 0; i < from.size(); ++i) f(i, values[i]);
  }
  template <class F>
  void call(ringlet::communicator<X>& comm, F&& f) {
    f(ringlet::on(stream_), comm);
  }
  void wait(ringlet::communicator<X>& comm) { ringlet::wait(ringlet::on(stream_), comm); }

 private:
  typename R::stream stream_ = R::make_stream();
};

}  // namespace perf
