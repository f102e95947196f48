// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/chords.hpp"

namespace {
using ringlet::chord_share;
using ringlet::chords_among;

static_assert(chords_among(1) == 0 && chords_among(2) == 1 && chords_among(3) == 2 && chords_among(4) == 2);
static_assert(chords_among(5) == 3 && chords_among(8) == 3 && chords_among(9) == 4 && chords_among(1 << 30) == 30);
static_assert(chords_among((1 << 30) + 1) == 31);

static_assert(chord_share(0, 2) == 1 && chord_share(1, 4) == 2 && chord_share(2, 8) == 4);
static_assert(chord_share(2, 5) == 1 && chord_share(2, 7) == 3, "what the other end has already is not sent again");

// All that a rank receives, and itself: everybody.
constexpr bool all_come(int ranks) {
  std::size_t known = 1;
  for (int k = 0; k < chords_among(ranks); ++k) {
    if (chord_share(k, ranks) > known) return false;  // nobody has so much yet
    known += chord_share(k, ranks);
  }
  return known == static_cast<std::size_t>(ranks);
}
static_assert([] {
  for (int n = 1; n <= 1000; ++n)
    if (!all_come(n)) return false;
  return true;
}());

// Every part of the contract is asked for.
template <int Without>
struct transport {
  struct end {
    template <class T>
    ringlet::slice<T> try_acquire(ringlet::placement);
    void commit();
    bool drained();
    template <class T>
    ringlet::slice<T> try_peek(ringlet::placement);
    void release();
    void announce(ringlet::call const&) requires(Without != 1);
    ringlet::call const& announced();
    ringlet::call const* waiting() requires(Without != 2);
  };
  struct link {
    end& next();
    end& prev();
    bool broken();
  };
  int chords() requires(Without != 3);
  std::size_t chord_bytes() requires(Without != 4);
  link& chord(int) requires(Without != 5);
  link& lane(std::size_t);
};
static_assert(ringlet::chorded<transport<0>>);
static_assert(!ringlet::chorded<transport<1>> && !ringlet::chorded<transport<2>> && !ringlet::chorded<transport<3>> &&
              !ringlet::chorded<transport<4>> && !ringlet::chorded<transport<5>>);

}  // namespace
