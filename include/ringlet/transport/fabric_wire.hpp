// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// What goes over the wire, from neighbour to neighbour:
//
// - Each rank has memory that its neighbours may write to: for each lane, slots for slices from the previous rank, and
//   two notes from the next one. It stays registered with the provider from the start to the end.
// - A slice is one remote write into the next rank's slot. With it, as CQ data, come 32 bits: that it is a slice, its
//   lane and its number. The number says which slot it is in, so slices may arrive in any order; its length is known to
//   both. The first slice of an operation has before it, in its slot, what its sender called.
// - For each slice that it has taken, the receiver sends one credit: a write of a few bytes that nobody reads, whose CQ
//   data says how many slots are free again. Credits add up, so their order is of no matter.
// - A sender uses a slot when it has the credit for it and the provider has ended the last transfer out of it. An
//   operation is over when all its transfers have ended here and its credits are with the provider, those aside that
//   wait for an earlier one.
// - A final value may go straight into the receiver's output, if that is registered: when an operation begins, the
//   receiver writes a note to its previous rank: address, key, length, the operation's number. Who has no such note for
//   the very operation that it is in uses the slot; so nothing can arrive in an output that was not opened. CQ data say
//   which it was, and a credit is needed either way.
// - Where the provider cannot write with CQ data, which is found out by trying, or should not (level 1), receives wait
//   at the slots, and slices are messages whose tags name lane and slot. A slot's receive is posted before its credit
//   is given.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "ringlet/chords.hpp"
#include "ringlet/config.hpp"
#include "ringlet/error.hpp"

namespace ringlet {

/// The memory of a rank that its neighbours write to, by what lies in it. The same on all ranks, so that each knows
/// where everything is at the other one.
struct fabric_shape {
  std::size_t slots = 4;                            ///< slices that a queue holds, 2 to 64
  std::size_t slot_bytes = std::size_t{512} << 10;  ///< capacity of a slot, a multiple of 128
  std::size_t lanes = 1;                            ///< parallel rings, 1 to 16
  /// The largest input of a rank, in bytes, that goes by chords; 0: none. Less where messages would outgrow a slot.
  std::size_t chord_bytes = 4096;

  /// The bound that `chord_bytes` comes to among so many ranks.
  std::size_t most_by_chords(int ranks) const {
    std::size_t longest = 1;
    for (int k = 0; k < chords_among(ranks); ++k) longest = std::max(longest, chord_share(k, ranks));
    return std::min(chord_bytes, slot_bytes / longest);
  }

  /// Bytes before the slice in a slot, for what its sender called.
  static constexpr std::size_t header = interference;
  /// Room for a note, see below.
  static constexpr std::size_t note_bytes = 64;

  // Offsets: a lane's notes by the parity of their operation, bytes that nobody reads, a lane's slots, and the end.
  std::size_t note(std::size_t lane, std::uint64_t operation) const { return (2 * lane + operation % 2) * note_bytes; }
  std::size_t sink() const { return 2 * lanes * note_bytes; }
  std::size_t slot(std::size_t lane, std::size_t i) const {
    return (2 * lanes + 2) * note_bytes + (lane * slots + i) * (header + slot_bytes);
  }
  std::size_t bytes() const { return slot(lanes, 0); }
};

/// The 32 bits that come with everything, as CQ data or in a tag:
///
///     31 30   29 .. 26   25       24       23 .. 0
///     kind    lane       called   landed   number
struct fabric_word {
  /// What the number is: of a slice, its own; of a credit, how many slots are free again; of a note, its operation's;
  /// of a hello, the level.
  enum class kind : std::uint32_t { slice, credit, note, hello };
  static constexpr std::uint32_t called = 1u << 25;   ///< what the sender called precedes the slice
  static constexpr std::uint32_t landed = 1u << 24;   ///< the slice is in the receiver's output, not in its slot
  static constexpr std::uint32_t numbers = 1u << 24;  ///< how many there are; then they begin again

  static constexpr std::uint32_t of(kind k, std::size_t lane, std::uint64_t number, std::uint32_t flags = 0) {
    return static_cast<std::uint32_t>(k) << 30 | static_cast<std::uint32_t>(lane) << 26 | flags |
           static_cast<std::uint32_t>(number % numbers);
  }
  static constexpr kind what(std::uint32_t w) { return static_cast<kind>(w >> 30); }
  static constexpr std::size_t lane(std::uint32_t w) { return w >> 26 & 15; }
  static constexpr std::uint32_t number(std::uint32_t w) { return w % numbers; }

  /// The tag of a slice names its slot too, so that it comes to lie there whatever came before it.
  static constexpr std::uint64_t tag(std::uint32_t w, std::size_t slot = 0) { return std::uint64_t{slot} << 32 | w; }
  /// Bits of a tag that a receive leaves open: for any slice of one slot, and for any credit or hello.
  static constexpr std::uint64_t open_slice = called | landed | (numbers - 1);
  static constexpr std::uint64_t open_words = (std::uint64_t{1} << 31) | ((std::uint64_t{1} << 30) - 1);
};

/// Where an output is open for slices: what a rank writes to its previous one when an operation begins.
struct fabric_note {
  std::uint64_t address, key, bytes, operation;
};
static_assert(sizeof(fabric_note) <= fabric_shape::note_bytes);

/// Bytes of slices, by the way that they took: what was copied, and what was not.
struct fabric_statistics {
  std::uint64_t from_place = 0;  ///< sent straight from the caller's memory
  std::uint64_t staged = 0;  ///< copied before sending, since the provider wants registered memory, and this was not
  std::uint64_t landed = 0;  ///< final values that arrived in the output
  std::uint64_t final_in_slots = 0;  ///< final values that arrived in slots, and are copied from there to the output
};

namespace detail {

struct fabric_free {
  static constexpr std::align_val_t alignment{4096};
  void operator()(std::byte* p) const { ::operator delete(p, alignment); }
};
using fabric_memory = std::unique_ptr<std::byte, fabric_free>;
// Zeroed memory. It is really there: some providers want that.
inline fabric_memory fabric_allocate(std::size_t bytes) {
  auto* const p = static_cast<std::byte*>(::operator new(bytes, fabric_free::alignment, std::nothrow));
  if (p == nullptr) throw error(errc::out_of_memory, words("no memory for %zu bytes", bytes));
  std::memset(p, 0, bytes);
  return fabric_memory(p);
}

}  // namespace detail
}  // namespace ringlet
