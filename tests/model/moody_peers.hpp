// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "moods.hpp"
#include "ringlet/call.hpp"
#include "ringlet/mapped_peers.hpp"

namespace model {

/// The boards of all ranks, two each as in shared memory, and their stages.
struct moody_boards {
  struct board {
    std::uint64_t exchange = 0;
    ringlet::call called;
    alignas(16) std::byte text[ringlet::short_board_bytes];
    alignas(16) std::byte bytes[256];
  };
  struct pair {
    std::uint64_t published = 0;
    board two[2];
  };
  std::vector<pair> of;  // by rank
  // Every rank's stage, one after the other: lines, so that they are aligned.
  struct alignas(128) line {
    std::byte bytes[128];
  };
  std::size_t stage_lines = 0;
  std::vector<line> stages;
};

/// Peers in the memory of one thread, which see what others have published when they like, and hold everyone to the
/// contract.
class moody_peers {
 public:
  moody_peers(int rank, moody_boards& all, dice& d, unsigned temper, bool mapped, bool const& broken)
      : rank_(rank), all_(&all), mood_(d, temper), mapped_(mapped), broken_(&broken), seen_(all.of.size()) {}

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(all_->of.size()); }
  std::size_t board_bytes() const { return sizeof(moody_boards::board::bytes); }
  template <class T>
  T* board(std::size_t n) {
    for (auto const& peer : all_->of)
      expect(peer.published >= exchange_, "a board is written while a peer may read it");
    return reinterpret_cast<T*>(place(mine().two[(exchange_ + 1) % 2], n * sizeof(T)));
  }
  void publish(ringlet::call const& c) {
    board<std::byte>(0);
    ++exchange_;
    auto& b = mine().two[exchange_ % 2];
    b.called = c;
    b.exchange = mine().published = exchange_;
  }
  bool published(int peer) {
    auto& its = all_->of[static_cast<std::size_t>(peer)];
    std::uint64_t& seen = seen_[static_cast<std::size_t>(peer)];
    if (its.published < exchange_ || (seen != exchange_ && !mood_.answers())) return false;
    seen = exchange_;
    return true;
  }
  template <class T>
  T const* read(int peer, std::size_t n) const {
    expect(seen_[static_cast<std::size_t>(peer)] == exchange_, "a board is read before it was seen to be published");
    auto& its = all_->of[static_cast<std::size_t>(peer)];
    auto& b = its.two[exchange_ % 2];
    expect(b.exchange == exchange_, "a board is read after it was written again");
    return reinterpret_cast<T const*>(place(b, n * sizeof(T)));
  }
  std::uint64_t digest(int peer) const { return ringlet::digest(called(peer)); }
  ringlet::call const& called(int peer) const {
    expect(peer == rank_ || seen_[static_cast<std::size_t>(peer)] == exchange_,
           "asked for a peer's call before its board was read");
    return all_->of[static_cast<std::size_t>(peer)].two[exchange_ % 2].called;
  }
  ringlet::position locate(void const* p, std::size_t) const {
    return {mapped_ ? 1u : 0u, reinterpret_cast<std::uintptr_t>(p)};
  }
  template <class T>
  T* at(int, ringlet::position where) const {
    expect(where.window != 0, "memory is used that nobody can reach");
    return reinterpret_cast<T*>(where.offset);
  }
  std::size_t stage_bytes() const { return 128 * all_->stage_lines; }
  template <class T>
  T* stage(int peer, std::size_t at) const {
    return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(all_->stages.data()) +
                                static_cast<std::size_t>(peer) * stage_bytes() + at);
  }
  bool enter() { return !*broken_; }
  void leave() {}
  bool broken() const { return *broken_; }

 private:
  static std::byte* place(moody_boards::board& b, std::size_t bytes) {
    expect(bytes <= sizeof b.bytes, "more is on a board than it holds");
    return bytes <= sizeof b.text ? b.text : b.bytes;
  }
  moody_boards::pair& mine() { return all_->of[static_cast<std::size_t>(rank_)]; }

  int rank_;
  moody_boards* all_;
  mood mood_;
  bool mapped_;
  bool const* broken_;
  std::uint64_t exchange_ = 0;
  std::vector<std::uint64_t> seen_;  // by rank, the exchange whose board was seen
};

}  // namespace model
