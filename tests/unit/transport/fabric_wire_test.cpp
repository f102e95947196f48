// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/fabric_wire.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <set>

using ringlet::fabric_shape;
using ringlet::fabric_word;
using enum fabric_word::kind;

TEST_CASE("a word gives back what was put into it") {
  for (auto kind : {slice, credit, note, hello})
    for (std::size_t lane : {0, 7, 15})
      for (std::uint32_t number : {0u, 1u, fabric_word::numbers - 1})
        for (std::uint32_t flags : {0u, fabric_word::called, fabric_word::landed}) {
          std::uint32_t const w = fabric_word::of(kind, lane, number, flags);
          CHECK(fabric_word::what(w) == kind);
          CHECK(fabric_word::lane(w) == lane);
          CHECK(fabric_word::number(w) == number);
          CHECK((w & (fabric_word::called | fabric_word::landed)) == flags);
        }
}

TEST_CASE("a receive at a slot takes every slice for that slot, and nothing else") {
  auto matches = [](std::uint64_t tag, std::uint64_t receive, std::uint64_t open) {
    return ((tag ^ receive) & ~open) == 0;
  };
  std::uint64_t const at_slot_3 = fabric_word::tag(fabric_word::of(slice, 2, 0), 3);
  auto taken = [&](std::uint32_t w, std::size_t slot) {
    return matches(fabric_word::tag(w, slot), at_slot_3, fabric_word::open_slice);
  };
  CHECK(taken(fabric_word::of(slice, 2, 12345, fabric_word::called), 3));
  CHECK(!taken(fabric_word::of(slice, 2, 12345), 4));
  CHECK(!taken(fabric_word::of(slice, 1, 12345), 3));
  CHECK(!taken(fabric_word::of(credit, 2, 1), 3));

  std::uint64_t const for_words = fabric_word::tag(fabric_word::of(credit, 0, 0));
  auto word_taken = [&](std::uint32_t w, std::size_t slot = 0) {
    return matches(fabric_word::tag(w, slot), for_words, fabric_word::open_words);
  };
  CHECK(word_taken(fabric_word::of(credit, 15, 4)));
  CHECK(word_taken(fabric_word::of(hello, 0, 1)));
  CHECK(!word_taken(fabric_word::of(slice, 15, 4)));
  CHECK(!word_taken(fabric_word::of(credit, 0, 0), 1));
}

TEST_CASE("nothing lies where something else does") {
  fabric_shape const s{.slots = 3, .slot_bytes = 256, .lanes = 2};
  std::set<std::size_t> taken;
  auto take = [&](std::size_t from, std::size_t bytes) {
    for (std::size_t i = from; i < from + bytes; ++i) CHECK(taken.insert(i).second);
  };
  for (std::size_t lane = 0; lane < 2; ++lane) {
    for (std::uint64_t operation : {6, 7}) take(s.note(lane, operation), fabric_shape::note_bytes);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(s.slot(lane, i) % 128 == 0);
      take(s.slot(lane, i), fabric_shape::header + s.slot_bytes);
    }
  }
  take(s.sink(), 8);
  CHECK(*taken.rbegin() < s.bytes());
  CHECK(s.note(1, 6) == s.note(1, 8));  // by parity
}

TEST_CASE("messages by chords are no larger than a slot") {
  fabric_shape const s{.slot_bytes = 1024, .chord_bytes = 300};
  CHECK(s.most_by_chords(2) == 300);
  CHECK(s.most_by_chords(4) == 300);
  CHECK(s.most_by_chords(8) == 256);
  CHECK(s.most_by_chords(9) == 256);
  CHECK(fabric_shape{.chord_bytes = 0}.most_by_chords(3) == 0);
}
