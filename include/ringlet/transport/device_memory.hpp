// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringlet/error.hpp"
#include "ringlet/transport.hpp"
#include "ringlet/transport/device_runtime.hpp"

namespace ringlet {

/// Memory as a device sees it, given back in the way in which it was got.
/// @tparam R the runtime
template <device_runtime R>
class device_memory {
 public:
  device_memory() = default;
  /// Memory of the current device, zeroed, in whole pages of it, so that nothing else is shared along with it.
  static device_memory allocate(std::size_t bytes) {
    constexpr std::size_t page = std::size_t{2} << 20;
    void* const p = R::allocate((bytes + page - 1) / page * page);
    return {how::allocated, p, p};
  }
  /// What another process has shared, `offset` bytes into it.
  static device_memory open(typename R::handle const& handle, std::size_t offset) {
    void* const base = R::open(handle);
    return {how::opened, base, static_cast<std::byte*>(base) + offset};
  }
  /// Pages of the host.
  static device_memory map(void* host, std::size_t bytes) { return {how::mapped, host, R::map_host(host, bytes)}; }
  /// What this process has allocated itself, for another rank of it.
  static device_memory of_this_process(void* p) { return {how::plain, nullptr, p}; }

  device_memory(device_memory&& other) noexcept
      : got_(std::exchange(other.got_, how::plain)), base_(other.base_), data_(std::exchange(other.data_, nullptr)) {}
  device_memory& operator=(device_memory&& other) noexcept {
    std::swap(got_, other.got_);
    std::swap(base_, other.base_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~device_memory() {
    try {
      how const got = std::exchange(got_, how::plain);
      if (got == how::allocated) R::release(base_);
      if (got == how::opened) R::close(base_);
      if (got == how::mapped) R::unmap_host(base_);
    } catch (error const&) {  // the device has failed: what it held is gone with it
    }
  }

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  /// Leaves it as it is until the process ends: others may still be at it.
  void leave() { got_ = how::plain; }

 private:
  enum class how { plain, allocated, opened, mapped };
  device_memory(how got, void* base, void* data) : got_(got), base_(base), data_(data) {}

  how got_ = how::plain;
  void *base_ = nullptr, *data_ = nullptr;
};

/// A stream of the current device, and an event: given back when they go.
/// @tparam R the runtime
template <device_runtime R>
class device_stream {
 public:
  device_stream() = default;
  device_stream(device_stream const&) = delete;
  ~device_stream() {
    try {
      R::destroy(stream_);
    } catch (error const&) {  // it is gone with its device
    }
  }
  typename R::stream get() const { return stream_; }

 private:
  typename R::stream stream_ = R::make_stream();
};
template <device_runtime R>
class device_event {
 public:
  device_event() = default;
  device_event(device_event const&) = delete;
  ~device_event() {
    try {
      R::destroy(event_);
    } catch (error const&) {
    }
  }
  typename R::event const& get() const { return event_; }

 private:
  typename R::event event_ = R::make_event();
};

namespace detail {

// What tells processes apart, also where process numbers do not (containers): a random number that a fork changes.
inline std::uint64_t process_mark() {
  struct drawn {
    pid_t by = ::getpid();
    std::uint64_t number = 0;
    drawn() {
      if (::getrandom(&number, sizeof number, 0) != sizeof number) number = static_cast<std::uint64_t>(by);
    }
  };
  static drawn mine;
  if (mine.by != ::getpid()) mine = drawn();
  return mine.number;
}

}  // namespace detail

/// What a rank tells the others of its memory on a device, for them to reach it: plain bytes.
/// @tparam R the runtime
template <device_runtime R>
struct device_offer {
  typename R::handle handle;  ///< of the allocation
  std::uint64_t offset;       ///< of the memory within it: handles know nothing of that
  std::uint64_t process;      ///< whose address this is; a handle cannot be opened where it was made
  std::uint64_t address;
  device_id device;

  /// @throws error in the runtime's words when this memory cannot be shared
  explicit device_offer(std::byte* memory)
      : handle(R::share(memory)),
        offset(static_cast<std::uint64_t>(memory - static_cast<std::byte*>(R::block_of(memory).first))),
        process(detail::process_mark()),
        address(reinterpret_cast<std::uintptr_t>(memory)),
        device(R::id(R::device())) {}
  device_offer() = default;

  /// The memory as the current device sees it.
  /// @throws error in the runtime's words when it cannot reach it
  device_memory<R> take() const {
    if (process == detail::process_mark()) {
      R::enable_access(device);
      return device_memory<R>::of_this_process(reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)));
    }
    if (!R::can_access(R::device(), device))
      throw error(errc::unsupported, "the devices do not reach each other (no peer access, or parts of one device)");
    return device_memory<R>::open(handle, offset);
  }
};

/// Each rank's segment, as this rank's device sees it.
/// @tparam R the runtime
template <device_runtime R>
struct device_segments {
  std::vector<device_memory<R>> parts;  ///< by rank; empty where devices do not reach each other
  std::vector<device_id> devices;       ///< by rank
  std::string why_not;                  ///< why they do not, the same on all ranks
  bool all_wait_for_values = true;      ///< whether all ranks' streams can
};

/// Allocates a segment on each rank's current device and opens the others', once each. Whether all can read what the
/// others have written is tried, and agreed. A collective.
/// @param bytes of a segment
/// @param unwanted why it is not to be tried at all; empty: it is
template <device_runtime R, meeting M>
device_segments<R> share_segments(M& m, std::size_t bytes, std::string const& unwanted, time_point until) {
  struct card {
    device_offer<R> offer;
    device_id device;
    bool offered, waits;
  };
  static_assert(std::is_trivially_copyable_v<card> && sizeof(card) <= 256);
  device_stream<R> const stream;
  device_segments<R> all;
  device_memory<R> own;
  std::string why = unwanted;
  card mine{};
  mine.device = R::id(R::device());
  mine.waits = R::waits_for_values();
  std::uint64_t const sign = m.token() ^ static_cast<std::uint64_t>(m.rank());
  if (why.empty()) try {
      own = device_memory<R>::allocate(bytes);
      R::copy(stream.get(), own.data(), &sign, sizeof sign);
      R::synchronise(stream.get());
      mine.offer = device_offer<R>(own.data());
      mine.offered = true;
    } catch (error const& e) {
      why = e.words();
    }
  auto const texts =
      m.exchange("cuda_ipc/segment", std::string(reinterpret_cast<char const*>(&mine), sizeof mine), until);
  std::vector<card> cards(texts.size());
  bool offered = true;
  for (std::size_t r = 0; r < cards.size(); ++r) {
    std::memcpy(&cards[r], texts[r].data(), std::min(sizeof(card), texts[r].size()));
    offered = offered && cards[r].offered;
    all.devices.push_back(cards[r].device);
    all.all_wait_for_values = all.all_wait_for_values && cards[r].waits;
  }
  for (std::size_t r = 0; offered && why.empty() && r < cards.size(); ++r) try {
      all.parts.push_back(static_cast<int>(r) == m.rank() ? std::move(own) : cards[r].offer.take());
      std::uint64_t seen = 0;
      R::copy(stream.get(), &seen, all.parts[r].data(), sizeof seen);
      R::synchronise(stream.get());
      if (seen != (m.token() ^ static_cast<std::uint64_t>(r)))
        why =
            "what is read from rank " + std::to_string(r) + " is not what it wrote (an IOMMU or PCIe ACS in the way?)";
    } catch (error const& e) {
      why = "rank " + std::to_string(r) + "'s memory: " + e.words();
    }
  auto const verdicts = m.exchange("cuda_ipc/verdict", why.substr(0, 255), until);
  for (std::size_t r = 0; r < verdicts.size(); ++r)
    if (all.why_not.empty() && !verdicts[r].empty())
      all.why_not = verdicts[r] == unwanted ? unwanted : "rank " + std::to_string(r) + ": " + verdicts[r];
  if (all.why_not.empty()) return all;
  // Whoever has opened another's memory closes it before that one gives it back.
  for (std::size_t r = 0; r < all.parts.size(); ++r)
    if (static_cast<int>(r) == m.rank()) own = std::move(all.parts[r]);
  all.parts.clear();
  m.exchange("cuda_ipc/closed", "", until);
  return all;
}

}  // namespace ringlet
