// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>

#include "ringlet/clock.hpp"
#include "ringlet/collective_operation.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/cuda_kernels.hpp"
#include "ringlet/direct_kernel.hpp"
#include "ringlet/line_kernel.hpp"
#include "ringlet/operation.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/schedule.hpp"
#include "ringlet/stream_steps.hpp"
#include "ringlet/transport/cuda_ipc.hpp"

namespace ringlet {

/// A stream in which a collective is to take its turn: `on(stream)`.
/// @tparam Stream the runtime's: `cudaStream_t`
template <class Stream>
struct on_stream {
  Stream stream;
};

/// Names the stream of a call: `all_reduce(on(stream), comm, input, output)`.
///
/// Such a call returns at once: buffers are memory of the device, and hold results when the stream has come past it.
/// All ranks call alike, in the same order, from one thread each. Calls of one communicator run one after the other,
/// also on different streams. Where `comm.transport().stream_driven()` is false, a call may be captured into a graph,
/// after one of its kind that loads its kernel; then whoever launches graphs keeps them in one order with other calls,
/// and lets them end before the communicator goes. What goes wrong later ends the communicator, and is thrown by the
/// next call or by `wait`. Ranks that call different things are told so; or, if one call goes as lines, the other does
/// not (`device_selection`), and more calls have followed, that they have waited in vain.
template <class Stream>
on_stream<Stream> on(Stream stream) {
  return {stream};
}

namespace detail {

// What a block has reported, as a fault that all are told.
template <class X>
void tell_report(session<X>& s) {
  if (s.failed()) return;
  auto const [report, rank] = s.wires.report();
  if (report == nullptr) return;
  auto const said = kernel_report::verdict::unpack(report->said.acquire());
  if (said.why == kernel_fault::differs)
    s.fail(fault(errc::mismatch, said.peer, "rank %d called something else than rank %d%s%s", rank, said.peer,
                 report->theirs.element != 0 ? ", which called " : "",
                 report->theirs.element != 0 ? describe(report->theirs).c_str() : ""));
  else
    s.fail(fault(errc::timed_out, said.peer,
                 "rank %d's device waited %lld ms in step %d for %s%s: see what keeps it and what it called, or raise "
                 "connect_options::timeout",
                 rank, static_cast<long long>(s.options.timeout.count()), said.step,
                 said.peer < 0 ? "its peers" : "rank ", said.peer < 0 ? "" : std::to_string(said.peer).c_str()));
}

// Loads a kernel on the rank's device, and sees that all its blocks fit there, before any is started.
template <class R, class Body>
void prepare(unsigned blocks, unsigned threads) {
  static std::atomic<std::uint64_t> ready{0};  // a bit for each of the first 64 devices
  std::uint64_t const mine = std::uint64_t{1} << (R::device() % 64);
  if ((ready.load(std::memory_order_acquire) & mine) != 0) return;
  R::template prepare<Body>();
  if (unsigned const most = R::template blocks_at_once<Body>(threads); most < blocks)
    throw error(errc::unsupported, words("%u blocks of %u threads wait for each other, but the device runs %u at once: "
                                         "give fewer device_settings::lanes or threads",
                                         blocks, threads, most));
  ready.fetch_or(mine, std::memory_order_release);
}

// Puts one kernel into the stream, with a block a lane.
template <class R, class Body>
void launch_on_lanes(cuda_ipc<R>& x, typename R::stream stream, Body const& body) {
  auto const lanes = static_cast<unsigned>(x.on_device().lanes);
  prepare<R, Body>(lanes, x.on_device().threads);
  R::launch(stream, lanes, x.on_device().threads, body);
}

// Whether an operator can be applied to what another rank gives: not where each rank lifts by a value of its own.
template <class Arithmetic>
inline constexpr bool applies_anywhere = !Arithmetic::lifts || std::is_empty_v<typename Arithmetic::operation>;

// A call with a kernel that runs it whole.
template <collective What, class T, class Op, class R>
void by_kernel(session<cuda_ipc<R>>& s, typename R::stream stream, buffers<T> at, Op const& op, call const& called) {
  auto& x = s.wires;
  auto const& set = x.on_device();
  using arith = arithmetic<T, Op>;
  std::size_t const widest = set.slot_bytes / sizeof(typename arith::wire);
  std::size_t const depth = std::max<std::size_t>(1, set.slots / 2);
  std::size_t const least = std::max<std::size_t>(1, std::min(widest, 4096 / sizeof(typename arith::wire)));
  std::size_t const share = at.chunks.longest() / set.lanes;
  pipelining const pipe{std::clamp((share + depth - 1) / depth, least, widest), depth};
  auto const patience = static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::min<std::chrono::milliseconds>(s.options.timeout, std::chrono::hours(24 * 365)))
          .count());
  arith const how(op, s.size);
  ring_kernel<What, T, Op> const ring{x.device_lanes(), at, pipe, how, called, patience};
  if constexpr (applies_anywhere<arith>) {
    std::size_t const row = set.stage_bytes / static_cast<std::size_t>(s.size) / interference * interference;
    if (x.layout().all_reach() && row >= 16 + sizeof(T)) {
      std::size_t const whole = at.chunks.count * sizeof(T), chunk = at.chunks.longest() * sizeof(T);
      constexpr bool has_lines = sizeof(T) <= 8 && (sizeof(T) & (sizeof(T) - 1)) == 0;
      bool fit = false;
      if constexpr (has_lines)
        fit = line_kernel<What, T, Op>::lines(at.chunks, static_cast<unsigned>(set.lanes)) <= set.line_count;
      device_route const route = set.select.choose(whole_input(What) ? whole : chunk, whole, s.size, fit);
      if constexpr (has_lines)
        if (route == device_route::lines)
          return launch_on_lanes(x, stream, line_kernel<What, T, Op>{x.device_lanes(), at, how, called, patience});
      shown_call shown{called, {}, {}};
      // Others look for a whole buffer by its beginning.
      if (whole_input(What)) shown.input = x.locate_on_device(at.input, whole);
      if (whole_output(What)) shown.output = x.locate_on_device(at.output, whole);
      direct_kernel<What, T, Op> const direct{
          x.device_lanes(),
          at,
          route == device_route::one_shot ? kernel_route::one_shot : kernel_route::direct,
          how,
          shown,
          x.window_table(),
          patience};
      if (route == device_route::ring)
        return launch_on_lanes(x, stream, direct_or_ring_kernel<What, T, Op>{direct, ring});
      return launch_on_lanes(x, stream, direct);
    }
  }
  launch_on_lanes(x, stream, ring);
}

// A call that the stream drives.
template <collective What, class T, class Op, class R>
void by_steps(session<cuda_ipc<R>>& s, typename R::stream stream, buffers<T> at, Op const& op, call const& called) {
  auto& x = s.wires;
  auto const& set = x.on_device();
  using arith = arithmetic<T, Op>;
  using steps = stream_steps<R, arith>;
  auto const blocks = static_cast<unsigned>(set.lanes);
  prepare<R, step_kernel<arith>>(blocks, set.threads);
  steps link(stream, x.first_lane(), x.sent, x.received, called, x.blocks_arrived(), blocks, set.threads);
  std::size_t const widest = x.layout().slot_bytes / sizeof(typename arith::wire),
                    depth = std::max<std::size_t>(1, set.slots / 2);
  // Each step costs the host some microseconds, so slices are as large as slots.
  ring_operation<ring_schedule<What>, arith, steps, stream_worker<steps>> run(
      ring_schedule<What>{s.rank, s.size}, link, at,
      {std::max<std::size_t>(1, std::min(widest, at.chunks.longest())), depth}, arith(op, s.size), nullptr,
      stream_worker<steps>(link));
  run.poll();
}

// Runs what asks the device for something. When that fails, the others must not wait for this rank.
template <class X, class F>
auto or_tell(session<X>& s, F&& f) {
  try {
    return f();
  } catch (error const& e) {
    s.fail(fault(e.why(), s.rank, "rank %d: %s", s.rank, e.words().c_str()));
    throw;
  }
}

template <collective What, class T, class R, int Size, class Op>
void start_on(typename R::stream stream, communicator<cuda_ipc<R>, Size>& comm, T const* input, std::size_t input_count,
              T* output, std::size_t output_count, Op const& op, collective named = What) {
  auto& s = comm.session();
  auto& x = s.wires;
  buffers<T> const at{
      input, output, {whole_input(What) ? input_count : output_count, static_cast<std::size_t>(s.size)}};
  check(
      {input, input_count, output, output_count, sizeof(T), alignof(T), sizeof(typename arithmetic<T, Op>::wire), What},
      at.chunks, static_cast<std::size_t>(s.rank), x.on_device().slot_bytes);
  tell_report(s);
  s.check_usable();
  if (x.stream_driven() && or_tell(s, [&] { return R::capturing(stream); }))
    throw error(errc::invalid_argument,
                "ranks that share a device wait in the stream for numbers that only grow, which a graph cannot repeat: "
                "do not capture this call, or give device_form::kernel");
  call called = prototype<What, T, Op>;
  called.count = at.chunks.count;
  called.what = named;
  or_tell(s, [&] {
    x.in_order(stream, called, [&] {
      if (x.stream_driven())
        by_steps<What>(s, stream, at, op, called);
      else
        by_kernel<What>(s, stream, at, op, called);
    });
  });
}

// Returns when the stream is done, or a fault is known.
template <class R>
void look_after(session<cuda_ipc<R>>& s, typename R::stream stream) {
  using clock = std::chrono::steady_clock;
  auto& x = s.wires;
  auto got_on = clock::now(), looked = got_on;
  std::uint64_t moves = 0;
  for (unsigned vain = 0; !s.failed() && !R::idle(stream); ++vain) {
    if (vain < 1000) {
      s.pause();
      continue;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    auto const now = clock::now();
    if (now - looked < std::chrono::milliseconds(20)) continue;
    looked = now;
    tell_report(s);
    call mine, theirs;
    if (int const peer = x.other_than(mine, theirs); peer >= 0) s.disagree(mine, peer, theirs);
    if (int const peer = x.lost_on_device(); peer >= 0 && !R::idle(stream))
      s.fail(fault(errc::peer_lost, peer, "rank %d has ended or left, and rank %d's device needs it", peer, s.rank));
    if (!x.stream_driven()) continue;  // kernels have clocks of their own
    if (std::uint64_t const m = x.moves(); m != moves) moves = m, got_on = now;
    if (now - got_on > s.options.timeout)
      s.fail(
          fault(errc::timed_out, -1,
                "rank %d's stream waited %lld ms for its peers: see what keeps them, or raise connect_options::timeout",
                s.rank, static_cast<long long>(s.options.timeout.count())));
  }
  tell_report(s);
}

}  // namespace detail

/// An all-reduce in a stream: as `all_reduce`, but see `on`.
/// @throws error(errc::invalid_argument) when the buffers do not fit, before anything is sent
/// @throws error what an earlier call has failed by
template <class R, int Size, contiguous In, contiguous Out, class Op = sum>
void all_reduce(on_stream<typename R::stream> where, communicator<cuda_ipc<R>, Size>& comm, In const& input,
                Out&& output, Op op = {}) {
  using T = element_of<Out>;
  static_assert(std::is_same_v<T, element_of<In const>>, "ringlet: input and output have different elements");
  detail::start_on<collective::all_reduce, T, R>(where.stream, comm, std::data(input), std::size(input),
                                                 std::data(output), std::size(output), op);
}

/// An all-reduce in a stream, in place.
template <class R, int Size, contiguous InOut, class Op = sum>
  requires(!contiguous<Op>)
void all_reduce(on_stream<typename R::stream> where, communicator<cuda_ipc<R>, Size>& comm, InOut&& buffer,
                Op op = {}) {
  all_reduce(where, comm, buffer, buffer, op);
}

/// A reduce-scatter in a stream: as `reduce_scatter`, but see `on`.
/// @throws error as `all_reduce`
template <class R, int Size, contiguous In, contiguous Out, class Op = sum>
void reduce_scatter(on_stream<typename R::stream> where, communicator<cuda_ipc<R>, Size>& comm, In const& input,
                    Out&& output, Op op = {}) {
  using T = element_of<Out>;
  static_assert(std::is_same_v<T, element_of<In const>>, "ringlet: input and output have different elements");
  detail::start_on<collective::reduce_scatter, T, R>(where.stream, comm, std::data(input), std::size(input),
                                                     std::data(output), std::size(output), op);
}

/// An all-gather in a stream: as `all_gather`, but see `on`.
/// @throws error as `all_reduce`
template <class R, int Size, contiguous In, contiguous Out, class How = keep>
void all_gather(on_stream<typename R::stream> where, communicator<cuda_ipc<R>, Size>& comm, In const& input,
                Out&& output, How how = {}) {
  using T = element_of<Out>;
  static_assert(std::is_same_v<T, element_of<In const>>, "ringlet: input and output have different elements");
  detail::start_on<collective::all_gather, T, R>(where.stream, comm, std::data(input), std::size(input),
                                                 std::data(output), std::size(output), how);
}

/// A barrier in a stream: the stream comes past it once all ranks' streams have come to theirs.
/// @throws error as `all_reduce`
template <class R, int Size>
void barrier(on_stream<typename R::stream> where, communicator<cuda_ipc<R>, Size>& comm) {
  std::uint8_t* const cells = comm.transport().barrier_cells();
  auto const n = static_cast<std::size_t>(comm.size());
  detail::start_on<collective::all_reduce, std::uint8_t, R>(where.stream, comm, cells, n, cells, n, bit_or{},
                                                            collective::barrier);
}

/// Waits on the host until everything in the stream is done, and looks after the ranks meanwhile: what a peer's end or
/// a time without progress would leave waiting is ended.
/// @throws error(errc::peer_lost, timed_out, mismatch, aborted) what a call on this communicator has failed by
/// @throws error(errc::unsupported) in the runtime's words when the stream itself has failed: that ends the
///   communicator, too
/// @throws error(errc::invalid_argument) while the stream is captured
template <class R, int Size>
void wait(on_stream<typename R::stream> where, communicator<cuda_ipc<R>, Size>& comm) {
  using clock = std::chrono::steady_clock;
  auto& s = comm.session();
  auto& x = s.wires;
  if (detail::or_tell(s, [&] { return R::capturing(where.stream); }))
    throw error(errc::invalid_argument, "a stream that is captured runs nothing: wait after its graph was launched");
  detail::or_tell(s, [&] { detail::look_after<R>(s, where.stream); });
  if (!s.failed()) return;
  // What is in the stream ends soon, now that its waits are over; if other work of the caller's does not, that is not
  // waited for.
  for (auto const end = clock::now() + std::chrono::seconds(5); !R::idle(where.stream) && clock::now() < end;) {
    if (x.stream_driven()) x.release_waits();  // again and again: a step that had begun may still post its numbers
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  std::optional<fault> why;
  s.reason(why);
  detail::raise(why, -1, -1);
}

}  // namespace ringlet
