// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/error.hpp"
#include "ringlet/mapped_peers.hpp"
#include "ringlet/transport.hpp"
#include "ringlet/transport/hand_over.hpp"
#include "ringlet/transport/memory_file.hpp"
#include "ringlet/transport/segment.hpp"
#include "ringlet/transport/segment_pairs.hpp"

namespace ringlet {

namespace detail {
// The ranks' segments in this process's memory, and the notice of their ends.
struct mapped_files {
  memory_file mine;
  std::vector<handed_over> peers;
  std::vector<mapping> segments;
  bool too_many = false;  // more ranks than processors

  descriptor const& file(int rank) const {
    auto const i = static_cast<std::size_t>(rank);
    return peers[i].file ? peers[i].file : mine.file();
  }
};
}  // namespace detail

/// Ranks that are processes (or threads) of one machine.
///
/// Each rank makes one unnamed file in memory and hands it to all others over local sockets: there is nothing in
/// /dev/shm to be left behind or cleaned away, and who is not handed the file cannot open it. Each rank's memory is
/// touched first by itself. A peer's end is noticed through its process descriptor.
class shared_memory : private detail::mapped_files, public segment_peers, public segment_pairs<shared_memory> {
 public:
  /// What ranks must have alike, and where their memory is.
  struct settings : segment_settings {
    /// Empty: the kernel's memory. Else a directory on a tmpfs, whose size limits what ranks can share.
    std::string directory;
  };

  /// As `transport` says.
  /// @throws error(errc::out_of_memory) with the bytes needed and available
  /// @throws error(errc::unsupported) when ranks are not on one machine
  template <meeting M>
  shared_memory(M& m, settings const& s, time_point until)
      : detail::mapped_files(map(m, s, until)), segment_peers(m.rank(), addresses(), s, too_many) {}

  /// A rank whose process has ended, or that left before it finished operation `sequence`, or -1.
  int lost(std::uint64_t sequence) const {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      bool const over = ended(peer);  // looked at first: who leaves in good order says so before it ends
      std::uint64_t const l = left(peer);
      if (l == 0 ? over : l - 1 < sequence) return peer;
    }
    return -1;
  }

  /// As `pairwise` says.
  bool gone(int peer) const { return left(peer) != 0 || ended(peer); }
  // As `segment_pairs` says.
  std::pair<std::byte*, std::uint64_t> make_room(std::size_t bytes) {
    std::size_t const offset = mine.grow(bytes);
    return {room_of(rank(), 1 + offset, bytes), 1 + offset};
  }
  std::byte* room_of(int peer, std::uint64_t number, std::size_t bytes) {
    return rooms_.emplace_back(file(peer), number - 1, bytes).data();
  }

  /// As `segment_peers`; who was killed within is within no more.
  void settle() {
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank() && ended(peer)) expel(peer);
    segment_peers::settle();
  }

  /// Memory in which all ranks can reach each other's part; a collective.
  /// @param bytes the same on all ranks
  /// @param positions_of tells all ranks where this rank's part begins, and gives all parts: an exchange
  /// @return this rank's part, zeroed, aligned to a page
  template <class Exchange>
  std::byte* open_window(std::size_t bytes, Exchange&& positions_of) {
    struct part {
      std::uint64_t offset, oldest;
      bool had;  // the memory was to be had
    };
    part own{0, next_window_, true};
    for (auto const& w : windows_)
      if (!w.closed && w.id < own.oldest) own.oldest = w.id;
    std::string reason;
    try {
      own.offset = mine.grow(bytes);
    } catch (error const& e) {  // the others must hear of it, for they are about to wait
      own.had = false;
      reason = e.words();
    }
    struct guard {  // until the window is there
      memory_file* file;
      std::uint64_t offset;
      std::size_t bytes;
      ~guard() {
        if (file != nullptr) file->punch(offset, bytes);
      }
    } grown{own.had ? &mine : nullptr, own.offset, bytes};
    std::vector<part> const parts = positions_of(own);
    std::uint64_t oldest = own.oldest;
    for (std::size_t r = 0; r < parts.size(); ++r) {
      if (parts[r].oldest < oldest) oldest = parts[r].oldest;
      if (parts[r].had) continue;
      throw error(errc::out_of_memory,
                  own.had
                      ? detail::words("rank %zu could not have %zu bytes of shared memory: see what it says", r, bytes)
                      : reason,
                  static_cast<int>(r));
    }
    // A window is unmapped once no rank uses it; until then others may still name it to this one.
    std::erase_if(windows_, [&](window const& w) { return w.id < oldest; });
    window w{next_window_++, bytes, own.offset, false, {}};
    for (int peer = 0; peer < size(); ++peer)
      w.parts.emplace_back(file(peer), parts[static_cast<std::size_t>(peer)].offset, bytes);
    windows_.push_back(std::move(w));
    grown.file = nullptr;
    mapping const& part_of_mine = windows_.back().parts[static_cast<std::size_t>(rank())];
    part_of_mine.collapse();
    return part_of_mine.data();
  }
  /// Gives this rank's part of a window back. Not a collective; only between operations.
  void close_window(std::byte* part) {
    for (auto& w : windows_)
      if (w.parts[static_cast<std::size_t>(rank())].data() == part) {
        w.closed = true;
        mine.punch(w.offset, w.bytes);
      }
  }

  // As `mapped_peers` says. Once in a program, not once in each operation.
  [[gnu::noinline]] position locate(void const* p, std::size_t bytes) const {
    auto const* const at = static_cast<std::byte const*>(p);
    for (auto const& w : windows_) {
      std::byte const* const begin = w.parts[static_cast<std::size_t>(rank())].data();
      if (!w.closed && at >= begin && at + bytes <= begin + w.bytes)
        return {w.id, static_cast<std::uint64_t>(at - begin)};
    }
    return {};
  }
  template <class T>
  T* at(int peer, position where) const {
    return reinterpret_cast<T*>(address(peer, where));
  }

 protected:
  /// Whether a peer's process has ended.
  bool ended(int peer) const {
    pollfd p{peers[static_cast<std::size_t>(peer)].life.get(), POLLIN, 0};
    return p.fd >= 0 && ::poll(&p, 1, 0) > 0 && p.revents != 0;
  }

 private:
  struct window {
    std::uint64_t id;
    std::size_t bytes, offset;
    bool closed;  // by this rank
    std::vector<mapping> parts;
  };

  template <meeting M>
  static detail::mapped_files map(M& m, settings const& s, time_point until) {
    s.check();
    std::size_t const bytes = segment_bytes(s, static_cast<std::size_t>(m.size()));
    detail::mapped_files all{memory_file(s.directory), {}, {}, false};
    std::size_t offset = 0;
    std::string lacks;  // empty when this rank has its memory; the others must hear of it before they wait
    try {
      offset = all.mine.grow(bytes);
    } catch (error const& e) {
      lacks = e.words().substr(0, 255);
    }
    auto const lack = m.exchange("shared_memory/memory", lacks, until);
    for (int peer = 0; peer < m.size(); ++peer)
      if (auto const& its = lack[static_cast<std::size_t>(peer)]; !its.empty())
        throw error(errc::out_of_memory, "rank " + std::to_string(peer) + ": " + its, peer);
    all.peers = hand_over(m, "shared_memory/door", all.mine.file(), until);
    for (int peer = 0; peer < m.size(); ++peer) all.segments.emplace_back(all.file(peer), offset, bytes);
    all.segments[static_cast<std::size_t>(m.rank())].collapse();
    // Comes last: who has read it knows that all have mapped all.
    auto const affinities = m.exchange("shared_memory/processors", detail::affinity_text(), until);
    all.too_many = static_cast<std::size_t>(m.size()) > detail::processors(affinities);
    return all;
  }
  std::vector<std::byte*> addresses() const {
    std::vector<std::byte*> all;
    for (auto const& s : segments) all.push_back(s.data());
    return all;
  }
  [[gnu::noinline]] std::byte* address(int peer, position where) const {
    for (auto const& w : windows_)
      if (w.id == where.window) return w.parts[static_cast<std::size_t>(peer)].data() + where.offset;
    return nullptr;
  }
  std::vector<window> windows_;
  std::vector<mapping> rooms_;
  std::uint64_t next_window_ = 1;
};

}  // namespace ringlet
