// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Broadcast and reduce among mapped peers give the bits of the ring, for every root, or leave it to the ring: by
// compiling.
#include "ringlet/rooted.hpp"

#include "mapped.hpp"

namespace {

// An operator that is neither associative nor commutative, though it claims to be: it shows the order of addition.
struct tangle {
  using commutative_and_associative = std::true_type;
  constexpr std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const { return 3 * a + b; }
};
constexpr auto odd = [](std::size_t r, std::size_t i) { return static_cast<std::uint32_t>(101 * r + 7 * i + 1); };

constexpr selection small{.one_shot_bytes = 1 << 20}, large{.one_shot_bytes = 0, .boarded_bytes = 0},
    moderate{.one_shot_bytes = 0, .boarded_bytes = 1 << 20};

template <collective What>
constexpr bool same_bits(int size, std::size_t count) {
  using T = std::uint32_t;
  using op = std::conditional_t<What == broadcast, keep, tangle>;
  auto const n = static_cast<std::size_t>(size);
  for (std::size_t root = 0; root < n; ++root) {
    // The ring counts ranks from the root on.
    symbolic::world<ring_schedule<What>, T, op, false> ring(
        size, {.count = count}, [root, n](std::size_t d, std::size_t i) { return odd((root + d) % n, i); });
    if (ring.run([](std::size_t) { return true; }) != verdict::correct) return false;
    for (bool in_place : {false, true}) {
      auto same = [&](T const* output, std::size_t r) {
        for (std::size_t i = 0; i < count; ++i)
          if (output[i] != (What == broadcast || r == root ? ring.output(0)[i] : in_place ? odd(r, i) : 0))
            return false;
        return true;
      };
      auto runs = [&](selection select, hidden out_of_reach, bool ring_follows = false) {
        return direct<What, op, T>(size, count, in_place, select, out_of_reach, odd, same, static_cast<int>(root),
                                   ring_follows && count != 0);
      };
      // What nobody needs may be out of reach: but of the root, outputs of a broadcast and all of a reduce's others.
      bool const small_is_good = runs(small, hidden::nothing) && runs(small, hidden::everything);
      bool const large_is_good = runs(large, hidden::nothing) && runs(large, hidden::everything, true) &&
                                 runs(large, hidden::inputs, true) &&
                                 runs(large, hidden::outputs, What == reduce && !in_place) &&
                                 runs(large, hidden::of_odd_ranks, What == broadcast ? root % 2 != 0 : n > 1);
      // On boards, if there is more than lies beside positions, and if all whose memory counts are hidden.
      bool const brief = count * sizeof(T) <= short_board_bytes;
      bool const moderate_is_good =
          runs(moderate, hidden::nothing) && runs(moderate, hidden::everything, brief) &&
          runs(moderate, hidden::inputs, brief) &&
          runs(moderate, hidden::outputs, What == reduce && !in_place && (brief || n > 1)) &&
          runs(moderate, hidden::of_odd_ranks, What == broadcast ? root % 2 != 0 && brief : n > 1);
      if (!small_is_good || !large_is_good || !moderate_is_good) return false;
    }
  }
  return true;
}
template <collective What>
constexpr bool same_bits_for_all(int n) {
  auto const size = static_cast<std::size_t>(n);
  return same_bits<What>(n, 0) && same_bits<What>(n, 1) && same_bits<What>(n, 3 * size - 1);
}
static_assert(same_bits_for_all<broadcast>(1) && same_bits_for_all<broadcast>(2) && same_bits_for_all<broadcast>(3));
static_assert(same_bits_for_all<broadcast>(4) && same_bits_for_all<broadcast>(5));
static_assert(same_bits_for_all<reduce>(1) && same_bits_for_all<reduce>(2) && same_bits_for_all<reduce>(3));
static_assert(same_bits_for_all<reduce>(4) && same_bits_for_all<reduce>(5));
static_assert(same_bits<broadcast>(3, 19) && same_bits<reduce>(3, 19));
static_assert(same_bits<reduce>(2, 1024 + 5));  // more than a block

}  // namespace
