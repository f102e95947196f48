// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/mapped_peers.hpp"

using namespace ringlet;

// The archetype, for elements of one type: a world of one, which keeps the contract.
struct archetype {
  constexpr archetype() = default;
  archetype(archetype const&) = delete;
  archetype& operator=(archetype const&) = delete;

  constexpr int rank() { return 0; }
  constexpr int size() { return 1; }
  constexpr std::size_t board_bytes() { return sizeof board_; }
  template <std::same_as<char> T>
  constexpr T* board(std::size_t) {
    return board_;
  }
  constexpr void publish(call const& c) {
    called_ = c;
    published_ = true;
  }
  constexpr bool published(int) { return published_; }
  template <std::same_as<char> T>
  constexpr T const* read(int, std::size_t) {
    return board_;
  }
  constexpr std::uint64_t digest(int) { return ringlet::digest(called_); }
  constexpr call const& called(int) { return called_; }
  constexpr position locate(char const* p, std::size_t) { return {1, static_cast<std::uint64_t>(p - board_)}; }
  template <std::same_as<char> T>
  constexpr T* at(int, position where) {
    return board_ + where.offset;
  }
  constexpr std::size_t stage_bytes() { return sizeof stage_; }
  template <std::same_as<char> T>
  constexpr T* stage(int, std::size_t) {
    return stage_;
  }
  constexpr bool enter() { return true; }
  constexpr void leave() {}
  constexpr bool broken() { return false; }

 private:
  char board_[8] = {}, stage_[8] = {};
  call called_;
  bool published_ = false;
};
static_assert(mapped_peers<archetype, char> && !mapped_peers<archetype, int>);

// The contract's own example needs no more than the archetype offers.
template <mapped_peers<char> M>
constexpr bool barrier(M& m, call const& c) {
  m.publish(c);
  for (int peer = 0; peer < m.size(); ++peer)
    while (!m.published(peer)) {
    }
  return m.called(0) == c && m.digest(0) == digest(c);
}
static_assert([] {
  archetype alone;
  return barrier(alone, {.sequence = 3});
}());

// Memory that others cannot reach is in no window.
static_assert(position{}.window == 0);

// --- for each requirement, what lacks it ---

struct without_rank : archetype {
  int rank() = delete;
};
struct without_size : archetype {
  int size() = delete;
};
struct without_board_bytes : archetype {
  std::size_t board_bytes() = delete;
};
struct without_board : archetype {
  template <class T>
  T* board(std::size_t) = delete;
};
struct without_publish : archetype {
  void publish(call const&) = delete;
};
struct without_published : archetype {
  bool published(int) = delete;
};
struct without_read : archetype {
  template <class T>
  T const* read(int, std::size_t) = delete;
};
struct without_digest : archetype {
  std::uint64_t digest(int) = delete;
};
struct without_called : archetype {
  call const& called(int) = delete;
};
struct without_locate : archetype {
  position locate(char const*, std::size_t) = delete;
};
struct without_at : archetype {
  template <class T>
  T* at(int, position) = delete;
};
struct without_stage_bytes : archetype {
  std::size_t stage_bytes() = delete;
};
struct without_stage : archetype {
  template <class T>
  T* stage(int, std::size_t) = delete;
};
struct without_broken : archetype {
  bool broken() = delete;
};
template <class... M>
constexpr bool none = (!mapped_peers<M, char> && ...);
static_assert(none<without_rank, without_size, without_board_bytes, without_board, without_publish>);
static_assert(none<without_published, without_read>);
static_assert(none<without_digest, without_called, without_locate, without_at, without_broken>);
static_assert(none<without_stage_bytes, without_stage>);

struct rank_is_unsigned : archetype {
  unsigned rank();
};
struct size_is_unsigned : archetype {
  unsigned size();
};
struct board_bytes_is_int : archetype {
  int board_bytes();
};
struct publish_may_fail : archetype {
  bool publish(call const&);
};
struct breaks_in_silence : archetype {
  void broken();
};
static_assert(none<rank_is_unsigned, size_is_unsigned, board_bytes_is_int, publish_may_fail, breaks_in_silence>);

struct reads_what_it_may_change : archetype {
  template <class T>
  T* read(int, std::size_t);
};
struct board_is_to_be_read : archetype {
  template <class T>
  T const* board(std::size_t);
};
struct digest_of_half_the_bits : archetype {
  std::uint32_t digest(int);
};
struct called_is_a_copy : archetype {  // errors point to it
  call called(int);
};
struct locates_an_address : archetype {
  void* locate(char const*, std::size_t);
};
struct locates_only_to_write : archetype {  // inputs are const
  position locate(char*, std::size_t);
};
struct at_cannot_be_written : archetype {
  template <class T>
  T const* at(int, position);
};
static_assert(none<reads_what_it_may_change, board_is_to_be_read, digest_of_half_the_bits, called_is_a_copy>);
static_assert(none<locates_an_address, locates_only_to_write, at_cannot_be_written>);
