// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <vector>

#include "ringlet/collective_operation.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/error.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/schedule.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/transport/device_memory.hpp"
#include "ringlet/transport/device_runtime.hpp"

// Memory of devices over any transport of the host, as between hosts: device, host, wire, host, device, a slice behind
// the other.

namespace ringlet {

/// What a rank needs to let memory of its device travel by way of the host: pinned memory for some slices, and two
/// streams of the device that is current when it is made. It may serve one call after the other, on any communicator,
/// from one thread.
/// @tparam R the runtime
template <device_runtime R>
class host_staging {
 public:
  /// @param slice_bytes bytes of a slice, a multiple of 128, at least those of an element; the same on all ranks of a
  ///   call
  /// @param slices under way at once, at least 3: one that comes, one that travels, one that goes
  /// @throws error(errc::invalid_argument) for what cannot work
  /// @throws error(errc::unsupported) when memory of the host cannot be pinned
  explicit host_staging(std::size_t slice_bytes = std::size_t{1} << 20, std::size_t slices = 4)
      : slice_bytes_(slice_bytes), slots_(slices), memory_(whole_pages(slice_bytes, slices)) {
    pinned_ = device_memory<R>::map(memory_.get(), memory_.get_deleter().bytes);
  }

  std::size_t slice_bytes() const { return slice_bytes_; }
  std::size_t slices() const { return slots_.size(); }
  /// Memory of slice i, of `slices()` in turn.
  std::byte* slice(std::size_t i) const { return memory_.get() + i % slots_.size() * slice_bytes_; }

  /// The device's stream for what comes to the host, the one for what goes back, and whether slice i has got through.
  typename R::stream coming() const { return coming_.get(); }
  typename R::stream going() const { return going_.get(); }
  bool has_come(std::size_t i) const { return R::passed(slots_[i % slots_.size()].came.get()); }
  bool has_gone(std::size_t i) const { return R::passed(slots_[i % slots_.size()].went.get()); }

  void come(std::size_t i, void const* from, std::size_t bytes) {
    if (bytes != 0) R::copy(coming(), slice(i), from, bytes);
    R::record(slots_[i % slots_.size()].came.get(), coming());
  }
  void go(std::size_t i, void* to, std::size_t bytes) {
    if (bytes != 0) R::copy(going(), to, slice(i), bytes);
    R::record(slots_[i % slots_.size()].went.get(), going());
  }
  /// Lets one stream go on when another has come so far.
  void after(typename R::stream waits, typename R::stream runs) {
    R::record(turn_.get(), runs);
    R::wait(waits, turn_.get());
  }

 private:
  static constexpr std::size_t page = 4096;
  struct give_back {
    std::size_t bytes;
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{page}); }
  };
  struct slot {
    device_event<R> came, went;
  };
  static std::unique_ptr<std::byte, give_back> whole_pages(std::size_t slice_bytes, std::size_t slices) {
    if (slice_bytes == 0 || slice_bytes % interference != 0 || slices < 3)
      throw error(
          errc::invalid_argument,
          detail::words("%zu slices of %zu bytes: expected at least 3 of a multiple of 128", slices, slice_bytes));
    std::size_t const bytes = (slice_bytes * slices + page - 1) / page * page;
    return {static_cast<std::byte*>(::operator new (bytes, std::align_val_t{page})), give_back{bytes}};
  }

  std::size_t slice_bytes_;
  std::vector<slot> slots_;
  std::unique_ptr<std::byte, give_back> memory_;
  device_memory<R> pinned_;
  device_stream<R> coming_, going_;
  device_event<R> turn_;
};

/// A stream and the staging by which its call goes: `through(staging, stream)`.
/// @tparam R the runtime
template <device_runtime R>
struct through_host {
  host_staging<R>& staging;
  typename R::stream stream;
};

/// Names how a call on memory of devices travels over a transport of the host: `all_reduce(through(staging, stream),
/// comm, in, out)`. It begins when the stream has come to it; but the host runs it, so unlike a call `on(stream)` it
/// returns when all has come to the output.
template <device_runtime R>
through_host<R> through(host_staging<R>& staging, typename R::stream stream) {
  return {staging, stream};
}

namespace detail {

// Brings all slices through: from the device, round the ring, and back.
// @param travelling room for one operation a slice of the staging
template <device_runtime R, class X, class T, class Operation, class Op>
void travel(through_host<R> where, session<X>& s, T const* input, T* output, std::size_t count, Op const& op,
            std::vector<std::optional<Operation>>& travelling) {
  auto& staging = where.staging;
  std::size_t const width = staging.slice_bytes() / sizeof(T), depth = travelling.size();
  std::size_t const slices = std::max<std::size_t>(1, (count + width - 1) / width);
  auto length = [&](std::size_t i) { return std::min(width, count - i * width); };

  // Whatever ends this early: nothing may be left that reads or writes the slices.
  struct at_rest {
    host_staging<R>& staging;
    ~at_rest() {
      try {
        R::synchronise(staging.coming());
        R::synchronise(staging.going());
      } catch (error const&) {  // the device has failed, and moves nothing any more
      }
    }
  };
  at_rest const ends{staging};
  staging.after(staging.coming(), where.stream);
  staging.after(staging.going(), where.stream);  // the output, too, may be in use until then
  std::size_t coming = 0, started = 0, arrived = 0, gone = 0;
  unsigned spent = 0;
  for (int left = s.pauses(); gone < slices;) {
    bool moved = false;
    if (coming < slices && coming - gone < depth) {
      staging.come(coming, input + coming * width, length(coming) * sizeof(T));
      ++coming, moved = true;
    }
    if (started < coming && staging.has_come(started)) {
      T* const at = reinterpret_cast<T*>(staging.slice(started));
      travelling[started % depth].emplace(s, at, length(started), at, length(started), op);
      ++started, moved = true;
    }
    if (arrived < started) {
      Operation& oldest = *travelling[arrived % depth];
      status const now = oldest.poll();
      if (now == status::failed) oldest.wait();  // throws why
      if (now == status::ready) {
        travelling[arrived % depth].reset();
        staging.go(arrived, output + arrived * width, length(arrived) * sizeof(T));
        ++arrived, moved = true;
      }
    }
    if (gone < arrived && staging.has_gone(gone)) ++gone, moved = true;
    bool const device_is_at_it = started < coming || gone < arrived;
    if (moved)
      left = s.pauses(), spent = 0;
    else if (left-- > 0)
      s.pause();
    else if (device_is_at_it)
      ::sched_yield();  // it wakes nobody
    else
      s.linger(spent++);
  }
}

}  // namespace detail

/// An all-reduce of memory of devices over a transport of the host, in slices, each an `all_reduce` of its own: while
/// one travels, the next one comes from the device and the one before goes back to it. All ranks get the same bits;
/// chunks are those of slices.
/// @param input,output memory of the device; the same number of elements on all ranks; the same memory or separate
/// @throws error as `all_reduce`; then what has come to the output is not known
template <device_runtime R, class X, int Size, contiguous In, contiguous Out, class Op = sum>
void all_reduce(through_host<R> where, communicator<X, Size>& comm, In const& input, Out&& output, Op op = {}) {
  using T = element_of<Out>;
  static_assert(std::is_same_v<T, element_of<In const>>, "ringlet: input and output have different elements");
  auto& session = comm.session();
  std::size_t const count = std::size(input);
  detail::check({std::data(input), count, std::data(output), std::size(output), sizeof(T), alignof(T), sizeof(T),
                 collective::all_reduce},
                comm.chunks(count), static_cast<std::size_t>(comm.rank()), where.staging.slice_bytes());
  using operation = collective_operation<X, Size, collective::all_reduce, T, Op>;
  std::vector<std::optional<operation>> travelling(where.staging.slices());
  try {
    detail::travel(where, session, static_cast<T const*>(std::data(input)), std::data(output), count, op, travelling);
  } catch (error const& e) {  // the others must not wait for this rank's device
    session.fail(fault(e.why(), session.rank, "rank %d: %s", session.rank, e.words().c_str()));
    throw;
  }
}

/// The same in place.
template <device_runtime R, class X, int Size, contiguous InOut, class Op = sum>
  requires(!contiguous<Op>)
void all_reduce(through_host<R> where, communicator<X, Size>& comm, InOut&& buffer, Op op = {}) {
  all_reduce(where, comm, buffer, buffer, op);
}

}  // namespace ringlet
