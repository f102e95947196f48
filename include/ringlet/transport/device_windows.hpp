// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/error.hpp"
#include "ringlet/mapped_peers.hpp"
#include "ringlet/transport/device_memory.hpp"
#include "ringlet/transport/device_runtime.hpp"

namespace ringlet {

/// Memory of devices from `communicator::allocate`: each rank has a part of a window, and reaches the others'.
/// @tparam R the runtime
template <device_runtime R>
class device_windows {
 public:
  /// How many windows have numbers at a time: those that do can be named to other ranks.
  static constexpr std::size_t most = 64;

  /// Opens a window; a collective.
  /// @param bytes the same on all ranks
  /// @param reach whether ranks reach each other's parts
  /// @param parts_of tells all ranks of this rank's part and gives all parts: an exchange. It is called twice, or,
  ///   when this fails, three times
  /// @return this rank's part, zeroed
  /// @throws error(errc::out_of_memory) on all ranks when one could not have or share its part
  template <class Exchange>
  std::byte* open(int rank, std::size_t bytes, bool reach, Exchange&& parts_of) {
    part own{};
    own.oldest = next_;
    for (auto const& w : windows_)
      if (!w.closed) own.oldest = std::min(own.oldest, w.id);
    window w{next_++, bytes, false, 0, {}, {}};
    std::string lacks;
    try {
      w.own = device_memory<R>::allocate(bytes);
      if (reach) own.offer = device_offer<R>(w.own.data());
      own.had = true;
    } catch (error const& e) {  // the others must hear of it, for they are about to wait
      lacks = e.words();
    }
    std::vector<part> const parts = parts_of(own);
    std::uint64_t oldest = own.oldest;
    for (auto const& p : parts) oldest = std::min(oldest, p.oldest);
    // What all ranks have closed: here each lets go of the others' parts, and after the next exchange of its own.
    for (auto& old : windows_)
      if (old.id < oldest) old.peers.clear();
    bool const had = std::all_of(parts.begin(), parts.end(), [](part const& p) { return p.had; });
    for (std::size_t r = 0; had && reach && lacks.empty() && r < parts.size(); ++r) try {
        w.peers.push_back(static_cast<int>(r) == rank ? device_memory<R>::of_this_process(w.own.data())
                                                      : parts[r].offer.take());
      } catch (error const& e) {
        lacks = e.words();
      }
    own.had = lacks.empty();
    std::vector<part> const verdicts = parts_of(own);
    std::erase_if(windows_, [&](window const& old) { return old.id < oldest; });
    for (std::size_t r = 0; r < verdicts.size(); ++r) {
      if (verdicts[r].had) continue;
      w.peers.clear();
      parts_of(own);  // here, too, all let go of the others' parts before those go
      throw error(
          errc::out_of_memory,
          !lacks.empty() ? lacks : detail::words("rank %zu could not share %zu bytes: see what it says", r, bytes),
          static_cast<int>(r));
    }
    if (reach) w.number = free_number();  // the same on all ranks, which open and forget windows together
    windows_.push_back(std::move(w));
    return windows_.back().own.data();
  }
  /// Where some memory of this rank's lies, for others to find it: windows have numbers from 1, and 0 is none.
  position locate(void const* p, std::size_t bytes) const {
    auto const* const at = static_cast<std::byte const*>(p);
    for (auto const& w : windows_) {
      std::byte const* const begin = w.own.data();
      if (!w.closed && w.number != 0 && at >= begin && at + bytes <= begin + w.bytes)
        return {w.number, static_cast<std::uint64_t>(at - begin)};
    }
    return {};
  }
  /// Whether memory lies in this rank's part of a window.
  bool hold(void const* p) const {
    auto const* const at = static_cast<std::byte const*>(p);
    return std::any_of(windows_.begin(), windows_.end(),
                       [&](window const& w) { return !w.closed && at >= w.own.data() && at < w.own.data() + w.bytes; });
  }
  /// The window that was opened last: its number, and its parts by rank as this rank's device sees them.
  std::uint64_t latest() const { return windows_.back().number; }
  std::vector<std::byte*> latest_parts() const {
    std::vector<std::byte*> parts;
    for (auto const& p : windows_.back().peers) parts.push_back(p.data());
    return parts;
  }
  /// This rank needs its part no more. Not a collective; only between calls.
  void close(std::byte* part) {
    for (auto& w : windows_) w.closed = w.closed || w.own.data() == part;
  }
  /// Lets go of the other ranks' parts, as they have to before those go.
  void let_go_of_peers() {
    for (auto& w : windows_) w.peers.clear();
  }
  /// Leaves everything as it is until the process ends.
  void leave() {
    for (auto& w : windows_) {
      w.own.leave();
      for (auto& p : w.peers) p.leave();
    }
  }

 private:
  struct part {
    device_offer<R> offer;
    std::uint64_t oldest;  // of the windows that its rank has open
    bool had;              // what was to be had
  };
  struct window {
    std::uint64_t id;
    std::size_t bytes;
    bool closed;  // by this rank
    std::uint64_t number;
    device_memory<R> own;
    std::vector<device_memory<R>> peers;  // by rank
  };

  std::uint64_t free_number() const {
    for (std::uint64_t n = 1; n <= most; ++n)
      if (std::none_of(windows_.begin(), windows_.end(), [&](window const& w) { return w.number == n; })) return n;
    return 0;
  }

  std::vector<window> windows_;
  std::uint64_t next_ = 1;
};

}  // namespace ringlet
