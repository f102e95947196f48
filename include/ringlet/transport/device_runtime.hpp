// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "ringlet/kernel.hpp"

namespace ringlet {

/// Which device it is, wherever one looks from: the same in every process, container and order of devices. Parts of a
/// device that are isolated from each other (MIG) have different ones.
struct device_id {
  unsigned char bytes[16] = {};

  friend bool operator==(device_id const&, device_id const&) = default;
};

namespace detail {
// A body that does nothing, to ask a runtime whether it can launch one.
struct idle_body {
  template <kernel_worker W>
  RINGLET_HD void operator()(W const&, unsigned, unsigned) const {}
};
}  // namespace detail

/// The calls to a device that the transport needs, as static functions of `R`, so that what is written over them runs
/// on a device (`cuda_runtime`) and, in the same order, on the host alone (`emulated_runtime`).
///
/// Contract. Each thread has a current device, 0 until it says `use(d)`; calls act on it. Whatever fails throws `error`
/// with the runtime's own words, and leaves nothing half done. A process that was forked after its parent's first call
/// can make none.
/// - `devices()` is how many there are, 0 where there is no driver. `id(d)` names one. `can_access(d, id)`: whether
///   device `d` may be able to load and store the memory of that one; true for itself, and for one that this process
///   cannot see. `enable_access(id)` lets the current device do so with what this process allocates there.
/// - Memory: `allocate(bytes)` gives zeroed memory, aligned to 256; `release(p)` gives it back, and refuses a pointer
///   into the middle. `block_of(p)` is the allocation that `p` lies in, as base and bytes.
/// - Sharing: `share(p)` makes a handle, plain bytes that another process of this machine can `open(handle)`; it names
///   the whole allocation that `p` lies in, and knows nothing of `p` itself. A process cannot open what it has itself
///   allocated. What was opened several times is closed as often, with `close(p)`, and before its owner releases it.
/// - Host memory: `map_host(p, bytes)` gives an address by which devices reach whole pages of the host, until
///   `unmap_host(p)`.
/// - Streams run what is put into them in order, beside the host: `copy`, `fill`, `launch`, `record`, `wait` and the
///   two for values return at once. `idle(s)`: whether all of it is done; `synchronise(s)` waits until it is;
///   `destroy(s)` does not wait. Both throw when something in the stream has failed.
/// - `wait(s, e)` lets a stream wait for the newest `record(e, other)` that was called before; `passed(e)`: whether it
///   has come.
/// - `wait_value(s, p, v)` lets it wait, without occupying the device, until the 8 bytes at `p`, less `v`, are no
///   negative number; `write_value(s, p, v)` writes them. `waits_for_values()`: whether the current device can.
/// - `capturing(s)`: whether the stream is being recorded into a graph instead of run.
/// - `prepare<Body>()`: loads a kernel, which may not be put off until another one spins.
///   `blocks_at_once<Body>(threads)`: how many blocks of it the current device can hold. `launch(s, blocks, threads,
///   body)`: runs `body(worker, block, blocks)` on so many blocks, all at once, or throws.
/// @tparam R the runtime
template <class R>
concept device_runtime = std::is_trivially_copyable_v<typename R::handle> && sizeof(typename R::handle) <= 64 &&
                         requires(typename R::stream s, typename R::event e, typename R::handle const& h, void* p,
                                  void const* q, std::size_t bytes, std::uint64_t v, int device, device_id const& id,
                                  unsigned n) {
  { R::name } -> std::convertible_to<char const*>;
  { R::devices() } -> std::same_as<int>;
  { R::device() } -> std::same_as<int>;
  { R::use(device) } -> std::same_as<void>;
  { R::id(device) } -> std::same_as<device_id>;
  { R::can_access(device, id) } -> std::same_as<bool>;
  { R::enable_access(id) } -> std::same_as<void>;
  { R::allocate(bytes) } -> std::same_as<void*>;
  { R::release(p) } -> std::same_as<void>;
  { R::block_of(q) } -> std::same_as<std::pair<void*, std::size_t>>;
  { R::share(q) } -> std::same_as<typename R::handle>;
  { R::open(h) } -> std::same_as<void*>;
  { R::close(p) } -> std::same_as<void>;
  { R::map_host(p, bytes) } -> std::same_as<void*>;
  { R::unmap_host(p) } -> std::same_as<void>;
  { R::make_stream() } -> std::same_as<typename R::stream>;
  { R::destroy(s) } -> std::same_as<void>;
  { R::synchronise(s) } -> std::same_as<void>;
  { R::idle(s) } -> std::same_as<bool>;
  { R::capturing(s) } -> std::same_as<bool>;
  { R::copy(s, p, q, bytes) } -> std::same_as<void>;
  { R::fill(s, p, device, bytes) } -> std::same_as<void>;
  { R::make_event() } -> std::same_as<typename R::event>;
  { R::destroy(e) } -> std::same_as<void>;
  { R::record(e, s) } -> std::same_as<void>;
  { R::passed(e) } -> std::same_as<bool>;
  { R::wait(s, e) } -> std::same_as<void>;
  { R::waits_for_values() } -> std::same_as<bool>;
  { R::wait_value(s, p, v) } -> std::same_as<void>;
  { R::write_value(s, p, v) } -> std::same_as<void>;
  { R::template prepare<detail::idle_body>() } -> std::same_as<void>;
  { R::template blocks_at_once<detail::idle_body>(n) } -> std::same_as<unsigned>;
  { R::launch(s, n, n, detail::idle_body{}) } -> std::same_as<void>;
};

}  // namespace ringlet
