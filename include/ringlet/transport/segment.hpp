// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <sched.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringlet/call.hpp"
#include "ringlet/clock.hpp"
#include "ringlet/config.hpp"
#include "ringlet/error.hpp"
#include "ringlet/mapped_peers.hpp"
#include "ringlet/transport.hpp"
#include "ringlet/transport/bell.hpp"
#include "ringlet/transport/slot_ring.hpp"

namespace ringlet {

/// What ranks agree on when they share memory. The same on all of them.
struct segment_settings {
  /// Slices that a queue holds, at least 2. Pipelining keeps fewer than that under way.
  std::size_t slots = 8;
  /// Capacity of a slot in bytes, a multiple of 128. What is written to a slot should still be in the cache when it is
  /// read.
  std::size_t slot_bytes = std::size_t{256} << 10;
  /// Parallel rings, each with its share of every chunk, 1 to 16.
  std::size_t lanes = 1;
  /// The largest input, in bytes, that travels on a board; a multiple of 128, at least 128.
  std::size_t board_bytes = std::size_t{32} << 10;
  /// Memory of each rank, in bytes, by which the others reach what is in ordinary memory; a multiple of 128, or 0.
  std::size_t stage_bytes = std::size_t{512} << 10;

  /// The settings as the text that ranks compare.
  std::string describe() const {
    return "slots=" + std::to_string(slots) + " slot_bytes=" + std::to_string(slot_bytes) +
           " lanes=" + std::to_string(lanes) + " board_bytes=" + std::to_string(board_bytes) +
           " stage_bytes=" + std::to_string(stage_bytes);
  }
  /// @throws error(errc::invalid_argument) naming the value that cannot work
  void check() const {
    auto refuse = [](std::string const& what, std::size_t given, std::string const& expected) {
      throw error(errc::invalid_argument, what + " is " + std::to_string(given) + ", expected " + expected);
    };
    constexpr std::size_t most = std::size_t{1} << 30;
    if (slots < 2 || slots > 4096) refuse("slots", slots, "2 to 4096: with one, a ring locks");
    if (slot_bytes == 0 || slot_bytes % interference != 0 || slot_bytes > most)
      refuse("slot_bytes", slot_bytes, "a multiple of 128 up to 1 GiB");
    if (lanes < 1 || lanes > 16) refuse("lanes", lanes, "1 to 16");
    if (board_bytes == 0 || board_bytes % interference != 0 || board_bytes > most)
      refuse("board_bytes", board_bytes, "a multiple of 128 up to 1 GiB");
    if (stage_bytes % interference != 0 || stage_bytes > most)
      refuse("stage_bytes", stage_bytes, "a multiple of 128 up to 1 GiB, or 0");
  }
};

/// Ranks whose segments of memory are all mapped into each other: their links, their boards, their faults. Where the
/// segments come from is the business of the transports that derive from it. A segment is valid when it is all zeros.
class segment_peers {
 public:
  /// A link of slots in the segments of two neighbours. It announces nothing: ranks find out on their boards that they
  /// have called different things, before any slice is sent.
  class link {
   public:
    class sender : public slot_ring<>::sender {
     public:
      sender(slot_ring<> const& r, bell& receiver) : slot_ring<>::sender(r), receiver_(&receiver) {}
      void announce(call const&) = delete;
      void commit() {
        slot_ring<>::sender::commit();
        receiver_->ring();
      }

     private:
      bell* receiver_;
    };
    class receiver : public slot_ring<>::receiver {
     public:
      receiver(slot_ring<> const& r, bell& sender) : slot_ring<>::receiver(r), sender_(&sender) {}
      void release() {
        slot_ring<>::receiver::release();
        sender_->ring();
      }

     private:
      bell* sender_;
    };

    link(sender next, receiver prev, std::uint32_t& told_by) : next_(next), prev_(prev), told_by_(&told_by) {}
    sender& next() { return next_; }
    receiver& prev() { return prev_; }
    bool broken() const { return std::atomic_ref(*told_by_).load(std::memory_order_acquire) != 0; }

   private:
    sender next_;
    receiver prev_;
    std::uint32_t* told_by_;
  };

  /// Bytes of one rank's segment among so many.
  static std::size_t segment_bytes(segment_settings const& s, std::size_t ranks) {
    return pairs_offset(s) + (ranks * sizeof(word) + interference - 1) / interference * interference;
  }

  segment_peers(segment_peers const&) = delete;

  // As `transport` says.
  link& lane(std::size_t i) { return links_[i]; }
  std::size_t lanes() const { return settings_.lanes; }
  std::size_t slots() const { return settings_.slots; }
  std::size_t slot_bytes() const { return settings_.slot_bytes; }
  bool crowded() const { return crowded_; }
  void rest() { at(rank_).sleeper.rest(); }
  void finish(std::uint64_t sequence) { at(rank_).left.release(1 + sequence); }
  [[gnu::cold]] void tell(fault const& f) {
    // A fault stays with its teller, and the others get one word that says whose to read: whoever is killed in here has
    // either told a rank or not.
    header& mine = at(rank_);
    std::atomic_ref telling(mine.telling);
    std::uint32_t not_yet = 0;
    if (telling.compare_exchange_strong(not_yet, under_way)) {
      mine.why = f;
      for (int k = 0; k < size(); ++k) {
        header& its = at((rank_ + k) % size());
        std::uint32_t nobody = 0;
        if (std::atomic_ref(its.told_by).compare_exchange_strong(nobody, 1 + static_cast<std::uint32_t>(rank_)))
          its.sleeper.ring();
      }
      telling.store(done);
    }
    while (telling.load() != done) ::sched_yield();  // another thread of this rank is at it; then all know
  }
  fault const* told() {
    std::uint32_t const teller = std::atomic_ref(at(rank_).told_by).load(std::memory_order_acquire);
    return teller != 0 ? &at(static_cast<int>(teller) - 1).why : nullptr;
  }

  // As `mapped_peers` says, but for `locate` and `at`.
  int rank() const { return rank_; }
  int size() const { return size_; }
  std::size_t board_bytes() const { return settings_.board_bytes; }
  std::size_t stage_bytes() const { return settings_.stage_bytes; }
  template <class T>
  T* stage(int peer, std::size_t at) const {
    return reinterpret_cast<T*>(segment(peer) + stage_offset(settings_) + at);
  }
  template <class T>
  T* board(std::size_t n) {
    return reinterpret_cast<T*>(segment(rank_) + board_offset(exchange_ + 1) + place(n * sizeof(T)));
  }
  [[gnu::noinline]] void publish(call const& c) {  // code for each transport, not for each operation
    published_ = board_offset(++exchange_);
    board_header& mine = board_of(rank_);
    mine.digest = ringlet::digest(c);
    call_of(rank_) = c;
    mine.published.release(exchange_);
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank_) at(peer).sleeper.ring();
  }
  bool published(int peer) const { return board_of(peer).published.acquire() == exchange_; }
  template <class T>
  T const* read(int peer, std::size_t n) const {
    return reinterpret_cast<T const*>(segment(peer) + published_ + place(n * sizeof(T)));
  }
  std::uint64_t digest(int peer) const { return board_of(peer).digest; }
  call const& called(int peer) const { return call_of(peer); }
  bool broken() const { return std::atomic_ref(at(rank_).told_by).load(std::memory_order_acquire) != 0; }
  [[gnu::noinline]] bool enter() {
    // In one order with `tell` and `settle`: either this rank sees the fault, or who settles sees this rank.
    std::atomic_ref(at(rank_).within).store(1, std::memory_order_seq_cst);
    if (std::atomic_ref(at(rank_).told_by).load(std::memory_order_seq_cst) == 0) return true;
    leave();
    return false;
  }
  void leave() { std::atomic_ref(at(rank_).within).store(0, std::memory_order_release); }
  /// After a fault that all have been told: returns when no peer is within this rank's buffers. A peer that was stopped
  /// there is not waited for for more than a second.
  void settle() {
    auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    for (int peer = 0; peer < size(); ++peer)
      while (peer != rank_ && std::atomic_ref(at(peer).within).load(std::memory_order_seq_cst) != 0 &&
             std::chrono::steady_clock::now() < end)
        ::sched_yield();
  }
  // For segment_pairs.hpp: where a rank has put what it sends to another one, 0 while it has not; and how to wake a
  // rank.
  word& pair_word(int from, int to) const {
    return reinterpret_cast<word*>(segment(from) + pairs_offset(settings_))[to];
  }
  bell& bell_of(int peer) const { return at(peer).sleeper; }
  /// A rank that has not published the exchange that this one is in, or -1.
  int absent() const {
    for (int peer = 0; peer < size(); ++peer)
      if (board_of(peer).published.acquire() != exchange_) return peer;
    return -1;
  }

 protected:
  /// @param segments by rank, each of `segment_bytes(s)`, zeroed by its owner, aligned to 128
  segment_peers(int rank, std::vector<std::byte*> segments, segment_settings const& s, bool crowded)
      : settings_(s),
        rank_(rank),
        size_(static_cast<int>(segments.size())),
        segments_(std::move(segments)),
        board_stride_(board_stride(s)),
        crowded_(crowded) {
    int const next = (rank + 1) % size(), prev = (rank + size() - 1) % size();
    links_.reserve(s.lanes);
    for (std::size_t i = 0; i < s.lanes; ++i)
      links_.emplace_back(link::sender(queue(rank, next, i), at(next).sleeper),
                          link::receiver(queue(prev, rank, i), at(prev).sleeper), at(rank).told_by);
  }
  ~segment_peers() = default;

  /// A peer that has ended is within nothing any more.
  void expel(int peer) { std::atomic_ref(at(peer).within).store(0, std::memory_order_relaxed); }
  std::byte* segment(int peer) const { return segments_[static_cast<std::size_t>(peer)]; }
  /// How many operations a rank had finished when it left in good order, plus 1; 0 while it has not left.
  std::uint64_t left(int peer) const { return at(peer).left.acquire(); }

 private:
  static constexpr std::uint32_t under_way = 1, done = 2;

  struct header {
    alignas(interference) word left;
    bell sleeper;
    alignas(interference) std::uint32_t told_by;  // 1 + the rank that was the first to tell this one a fault
    std::uint32_t telling;                        // how far this one is with telling others
    std::uint32_t within;                         // this one is at others' buffers
    fault why;                                    // what this one tells others
    alignas(interference) call calls[2];          // of the two latest exchanges
  };
  // A board: this header, behind it a short text, so that it comes with the cache line of the word that announces it;
  // and from the next line on a longer one.
  struct board_header {
    word published;
    std::uint64_t digest;
  };
  static_assert((sizeof(board_header) + short_board_bytes) % 64 == 0);
  static std::size_t place(std::size_t bytes) {
    return bytes <= short_board_bytes ? sizeof(board_header) : sizeof(board_header) + short_board_bytes;
  }
  // A lane: the count of slices that have come in, the credits for those that went out, the slots for what comes in.
  struct lane_header {
    alignas(interference) word filled;
    alignas(interference) word credit;
  };

  static std::size_t board_stride(segment_settings const& s) { return s.board_bytes + interference; }
  static std::size_t stage_offset(segment_settings const& s) {
    return sizeof(header) + 2 * board_stride(s) + s.lanes * lane_stride(s);
  }
  static std::size_t pairs_offset(segment_settings const& s) { return stage_offset(s) + s.stage_bytes; }
  static std::size_t lane_stride(segment_settings const& s) {
    return sizeof(lane_header) + slot_ring<>::bytes(s.slots, s.slot_bytes);
  }

  header& at(int peer) const { return *reinterpret_cast<header*>(segment(peer)); }
  // Two boards are enough: whoever publishes exchange k+2 has read k+1 of everyone, and they had read k before.
  std::size_t board_offset(std::uint64_t exchange) const {
    return sizeof(header) + (exchange % 2 != 0 ? board_stride_ : 0);
  }
  // A board of the exchange that is under way.
  board_header& board_of(int peer) const { return *reinterpret_cast<board_header*>(segment(peer) + published_); }
  call& call_of(int peer) const { return at(peer).calls[exchange_ % 2]; }
  lane_header& lane_of(int peer, std::size_t lane) const {
    return *reinterpret_cast<lane_header*>(segment(peer) + sizeof(header) + 2 * board_stride(settings_) +
                                           lane * lane_stride(settings_));
  }
  slot_ring<> queue(int from, int to, std::size_t lane) const {
    lane_header& receiver = lane_of(to, lane);
    return {&receiver.filled, &lane_of(from, lane).credit, reinterpret_cast<std::byte*>(&receiver + 1), settings_.slots,
            settings_.slot_bytes};
  }

  segment_settings settings_;
  int rank_, size_;
  std::vector<std::byte*> segments_;
  std::vector<link> links_;
  std::size_t board_stride_;
  std::uint64_t exchange_ = 0;
  std::size_t published_ = board_offset(0);  // where the boards of this exchange lie
  bool crowded_;
};

namespace detail {

// The processors that this thread may use, as bits, for others to read; and how many bits several such sets have.
inline std::string affinity_text() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ::sched_getaffinity(0, sizeof allowed, &allowed);
  std::string text;
  for (int byte = 0; byte < 128; ++byte) {  // 1,024 processors
    unsigned bits = 0;
    for (int b = 0; b < 8; ++b) bits |= CPU_ISSET(8 * byte + b, &allowed) ? 1u << b : 0u;
    text += static_cast<char>(bits);
  }
  return text;
}
inline std::size_t processors(std::vector<std::string> const& affinities) {
  std::size_t count = 0;
  for (std::size_t byte = 0; byte < 128; ++byte) {
    unsigned char any = 0;
    for (auto const& text : affinities) any |= static_cast<unsigned char>(byte < text.size() ? text[byte] : 0);
    count += static_cast<std::size_t>(std::popcount(any));
  }
  return count;
}

}  // namespace detail
}  // namespace ringlet
