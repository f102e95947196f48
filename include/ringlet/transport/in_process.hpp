// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/error.hpp"
#include "ringlet/mapped_peers.hpp"
#include "ringlet/transport.hpp"
#include "ringlet/transport/segment.hpp"
#include "ringlet/transport/segment_pairs.hpp"

namespace ringlet {

/// Ranks that are threads of one process. All memory is everybody's, so operations go direct whatever memory they are
/// given.
class in_process : public segment_peers, public segment_pairs<in_process> {
 public:
  /// What ranks must have alike.
  using settings = segment_settings;

  /// As `transport` says.
  /// @throws error(errc::unsupported) when the ranks are not in one process
  template <meeting M>
  in_process(M& m, settings const& s, time_point until) : in_process(m, share(m, s, until), s) {}

  ~in_process() {
    for (auto& s : shares_) s->release();
  }

  /// A rank that left before it finished operation `sequence`, or -1. A thread cannot be killed alone.
  int lost(std::uint64_t sequence) const {
    for (int peer = 0; peer < size(); ++peer)
      if (std::uint64_t const l = left(peer); peer != rank() && l != 0 && l - 1 < sequence) return peer;
    return -1;
  }

  /// As `pairwise` says.
  bool gone(int peer) const { return left(peer) != 0; }
  // As `segment_pairs` says.
  std::pair<std::byte*, std::uint64_t> make_room(std::size_t bytes) {
    std::byte* const room = shares_[static_cast<std::size_t>(rank())]->grow(bytes);
    return {room, reinterpret_cast<std::uintptr_t>(room)};
  }
  std::byte* room_of(int, std::uint64_t number, std::size_t) const { return reinterpret_cast<std::byte*>(number); }

  // As `mapped_peers` says: everything is in the one window of the address space.
  position locate(void const* p, std::size_t) const { return {1, reinterpret_cast<std::uintptr_t>(p)}; }
  template <class T>
  T* at(int, position where) const {
    return reinterpret_cast<T*>(where.offset);
  }

 private:
  // A segment with the number of ranks that still use it. Whoever is last frees it: ranks end in any order.
  class shared_segment {
   public:
    shared_segment(std::size_t bytes, int users) : segment_(lines(bytes)), users_(users) {}
    shared_segment(shared_segment const&) = delete;
    // More memory that goes with it, zeroed. Its own rank only.
    std::byte* grow(std::size_t bytes) { return more_.emplace_back(lines(bytes))[0].bytes; }
    void release() {
      if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
    }
    std::byte* memory() { return segment_[0].bytes; }

   private:
    struct alignas(interference) line {
      std::byte bytes[interference];
    };
    static std::size_t lines(std::size_t bytes) { return (bytes + interference - 1) / interference; }
    ~shared_segment() = default;
    std::vector<line> segment_;
    std::vector<std::vector<line>> more_;  // apart: peers may still ask where the segment is
    std::atomic<int> users_;
  };
  struct shared {
    std::vector<shared_segment*> segments;
    bool crowded;
  };

  template <meeting M>
  static shared share(M& m, settings const& s, time_point until) {
    s.check();
    // If an exchange fails it is never freed: others may have its address by then.
    auto* const mine = new shared_segment(segment_bytes(s, static_cast<std::size_t>(m.size())), m.size());
    std::string const process = std::to_string(::getpid()) + " ";
    std::string const value = process + std::to_string(reinterpret_cast<std::uintptr_t>(mine));
    auto const all = m.exchange("in_process/segment", value, until);
    shared result;
    for (int peer = 0; peer < m.size(); ++peer) {
      std::string const& its = all[static_cast<std::size_t>(peer)];
      if (its.rfind(process, 0) != 0)
        throw error(errc::unsupported,
                    "in_process connects threads of one process, but rank " + std::to_string(peer) +
                        " is in another one than rank " + std::to_string(m.rank()) + ": use shared_memory",
                    peer);
      result.segments.push_back(reinterpret_cast<shared_segment*>(std::stoull(its.substr(process.size()))));
    }
    auto const affinities = m.exchange("in_process/processors", detail::affinity_text(), until);
    result.crowded = static_cast<std::size_t>(m.size()) > detail::processors(affinities);
    return result;
  }
  static std::vector<std::byte*> memory(shared const& s) {
    std::vector<std::byte*> all;
    for (auto* segment : s.segments) all.push_back(segment->memory());
    return all;
  }
  template <meeting M>
  in_process(M& m, shared s, settings const& how)
      : segment_peers(m.rank(), memory(s), how, s.crowded), shares_(std::move(s.segments)) {}

  std::vector<shared_segment*> shares_;
};

}  // namespace ringlet
