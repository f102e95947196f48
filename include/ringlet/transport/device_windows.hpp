// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/error.hpp"
#include "ringlet/transport/device_memory.hpp"
#include "ringlet/transport/device_runtime.hpp"

namespace ringlet {

/// Memory of devices from `communicator::allocate`: each rank has a part of a window, and reaches the others'.
/// @tparam R the runtime
template <device_runtime R>
class device_windows {
 public:
  /// Opens a window; a collective.
  /// @param bytes the same on all ranks
  /// @param reach whether ranks reach each other's parts
  /// @param parts_of tells all ranks of this rank's part and gives all parts: an exchange. It is called twice
  /// @return this rank's part, zeroed
  /// @throws error(errc::out_of_memory) on all ranks when one could not have or share its part
  template <class Exchange>
  std::byte* open(int rank, std::size_t bytes, bool reach, Exchange&& parts_of) {
    part own{};
    own.oldest = next_;
    for (auto const& w : windows_)
      if (!w.closed) own.oldest = std::min(own.oldest, w.id);
    window w{next_++, false, {}, {}};
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
    for (std::size_t r = 0; r < verdicts.size(); ++r)
      if (!verdicts[r].had)
        throw error(
            errc::out_of_memory,
            !lacks.empty() ? lacks : detail::words("rank %zu could not share %zu bytes: see what it says", r, bytes),
            static_cast<int>(r));
    windows_.push_back(std::move(w));
    return windows_.back().own.data();
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
    bool closed;  // by this rank
    device_memory<R> own;
    std::vector<device_memory<R>> peers;  // by rank
  };

  std::vector<window> windows_;
  std::uint64_t next_ = 1;
};

}  // namespace ringlet
