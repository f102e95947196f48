// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ring, one-shot and direct give the same bits whatever the operator, and the direct ones are complete: by compiling.
#include "ringlet/direct.hpp"

#include "mapped.hpp"
#include "ringlet/prove.hpp"

namespace {
// On boards, in each other's memory, by way of stages; on boards where some memory is out of reach.
struct way {
  selection select;
  hidden out_of_reach;
};
constexpr selection small{.one_shot_bytes = 1 << 20}, large{.one_shot_bytes = 0, .boarded_bytes = 0},
    moderate{.one_shot_bytes = 0, .boarded_bytes = 1 << 20};
constexpr way ways[] = {{small, hidden::nothing},         {large, hidden::nothing},       {large, hidden::everything},
                        {large, hidden::of_odd_ranks},    {large, hidden::inputs},        {large, hidden::outputs},
                        {moderate, hidden::nothing},      {moderate, hidden::everything}, {moderate, hidden::inputs},
                        {moderate, hidden::of_odd_ranks}, {moderate, hidden::outputs}};

// 1. The order of addition: an operator that is neither associative nor commutative, though it claims to be. ---------

struct tangle {
  using commutative_and_associative = std::true_type;
  constexpr std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const { return 3 * a + b; }
};
constexpr auto odd = [](std::size_t r, std::size_t i) { return static_cast<std::uint32_t>(101 * r + 7 * i + 1); };

template <collective What>
constexpr bool same_bits(int n, std::size_t count) {
  using T = std::uint32_t;
  using op = std::conditional_t<What == all_gather, keep, tangle>;
  symbolic::world<ring_schedule<What>, T, op, false> ring(n, {.count = count}, odd);
  bool good = ring.run([](std::size_t) { return true; }) == verdict::correct;
  auto same = [&](T const* output, std::size_t r) {
    for (std::size_t i = 0; i < count; ++i) {
      bool const mine = i >= ring.chunks().offset(r) && i < ring.chunks().offset(r + 1);
      if ((whole_output(What) || mine) && output[i] != ring.output(r)[i]) return false;
    }
    return true;
  };
  for (bool in_place : {false, true})
    for (auto [select, out_of_reach] : ways)
      good = good && direct<What, op, T>(n, count, in_place, select, out_of_reach, odd, same);
  return good;
}
static_assert(same_bits<all_reduce>(1, 3) && same_bits<all_reduce>(2, 9) && same_bits<all_reduce>(3, 2));
static_assert(same_bits<all_reduce>(5, 23) && same_bits<all_reduce>(8, 40));
static_assert(same_bits<all_reduce>(3, 3 * 32 * 3 - 1));  // three rounds of stages, the last one short
static_assert(same_bits<reduce_scatter>(1, 3) && same_bits<reduce_scatter>(2, 9) && same_bits<reduce_scatter>(5, 23));
static_assert(same_bits<all_gather>(1, 3) && same_bits<all_gather>(2, 9) && same_bits<all_gather>(5, 23));
static_assert(same_bits<reduce_scatter>(3, 280) && same_bits<all_gather>(3, 280));

// 2. Every contributor once. -----------------------------------------------------------------------------------------

template <collective What>
constexpr bool complete(int n, std::size_t count) {
  using T = symbolic::contributors;
  using op = std::conditional_t<What == all_gather, keep, symbolic::join>;
  partition const chunks{count, static_cast<std::size_t>(n)};
  auto fill = [](std::size_t r, std::size_t) { return T{std::uint64_t{1} << r, false}; };
  auto look = [&](T const* output, std::size_t r) {
    for (std::size_t c = 0; c < chunks.parts; ++c)
      for (std::size_t i = chunks.offset(c); i < chunks.offset(c + 1); ++i)
        if ((whole_output(What) || c == r) && (output[i].twice || output[i].who != symbolic::expected<What>(n, c)))
          return false;
    return true;
  };
  for (bool in_place : {false, true})
    for (auto [select, out_of_reach] : ways)
      if (!direct<What, op, T>(n, count, in_place, select, out_of_reach, fill, look)) return false;
  return true;
}
template <collective... What>
constexpr bool all_complete(int n) {
  auto const size = static_cast<std::size_t>(n);
  return ((complete<What>(n, 0) && complete<What>(n, size / 2) && complete<What>(n, 3 * size - 1)) && ...);
}
static_assert(all_complete<all_reduce, reduce_scatter, all_gather>(1) &&
              all_complete<all_reduce, reduce_scatter, all_gather>(2));
static_assert(all_complete<all_reduce, reduce_scatter, all_gather>(3) &&
              all_complete<all_reduce, reduce_scatter, all_gather>(4));
static_assert(all_complete<all_reduce, reduce_scatter, all_gather>(9));

}  // namespace
