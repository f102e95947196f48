// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ringlet/element.hpp"
#include "ringlet/reduction.hpp"

// Inputs whose reductions are exact in any order of additions, so that a result is either right in every bit or wrong:
// integers take all values and wrap around; floats take integers so small that no partial sum is rounded, or powers of
// two for products. An average is rounded once, at its end, in the type that is calculated in.

namespace perf {

namespace detail {

template <class T>
inline constexpr int digits = std::numeric_limits<T>::digits;
template <int ExponentBits, int MantissaBits, bool Infinite>
inline constexpr int digits<ringlet::small_float<ExponentBits, MantissaBits, Infinite>> = MantissaBits + 1;

// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014: the finaliser of SplitMix64.
inline std::uint64_t mixed(std::size_t index, int rank, std::uint64_t seed) {
  std::uint64_t z = (index + 1) * 0x9e3779b97f4a7c15 + (static_cast<std::uint64_t>(rank) << 48) + (seed << 40);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Whether a rank is one of so many, others for each element.
inline bool one_of(std::size_t most, std::size_t index, int rank, int ranks) {
  return (index + static_cast<std::size_t>(rank)) % static_cast<std::size_t>(ranks) < most;
}

template <class T, class Op>
inline constexpr bool sums = std::is_same_v<Op, ringlet::sum> || std::is_same_v<Op, ringlet::average>;

}  // namespace detail

/// What a rank gives.
/// @tparam T the element
/// @tparam Op the operator; `ringlet::keep` where nothing is reduced
/// @param index of the element in the whole buffer
/// @param seed another one gives other values
template <class T, class Op>
T input(std::size_t index, int rank, int ranks, std::uint64_t seed) {
  std::uint64_t const random = detail::mixed(index, rank, seed);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(random);
  } else if constexpr (std::is_same_v<Op, ringlet::product>) {
    constexpr float factors[] = {0.5F, 1, 2, 1, -0.5F, -1, -2, -1};
    constexpr std::size_t most = 6;  // 2^-6 is the smallest normal number of float8_e4m3
    return static_cast<T>(detail::one_of(most, index, rank, ranks) ? factors[random % 8] : 1.0F);
  } else {
    constexpr std::uint64_t exact = std::uint64_t{1} << detail::digits<T>;
    std::uint64_t range = exact;
    if constexpr (detail::sums<T, Op>) {
      range = std::bit_floor(exact / static_cast<std::uint64_t>(ranks));
      if (range == 0) {  // so many ranks that only some can give more than nothing
        if (!detail::one_of(exact, index, rank, ranks)) return static_cast<T>(0.0F);
        range = 1;
      }
    }
    auto const value = static_cast<std::int64_t>(random % (2 * range)) - static_cast<std::int64_t>(range);
    if constexpr (std::is_same_v<T, double>)
      return static_cast<double>(value);
    else
      return static_cast<T>(static_cast<float>(value));
  }
}

/// What all of them come to.
template <class T, class Op>
T expected(std::size_t index, int ranks, std::uint64_t seed) {
  using wide = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;
  T const first = input<T, Op>(index, 0, ranks, seed);
  if constexpr (std::is_same_v<Op, ringlet::minimum> || std::is_same_v<Op, ringlet::maximum>) {
    T best = first;
    for (int rank = 1; rank < ranks; ++rank) {
      T const x = input<T, Op>(index, rank, ranks, seed);
      best = std::is_same_v<Op, ringlet::minimum> ? std::min(best, x) : std::max(best, x);
    }
    return best;
  } else {
    auto result = static_cast<wide>(first);
    for (int rank = 1; rank < ranks; ++rank) {
      auto const x = static_cast<wide>(input<T, Op>(index, rank, ranks, seed));
      if constexpr (std::is_same_v<Op, ringlet::product>)
        result *= x;
      else
        result += x;
    }
    if constexpr (std::is_integral_v<T>) {
      if constexpr (!std::is_same_v<Op, ringlet::average>)
        return static_cast<T>(result);
      else if constexpr (std::is_signed_v<T>)
        return static_cast<T>(std::int64_t{static_cast<T>(result)} / ranks);
      else
        return static_cast<T>(std::uint64_t{static_cast<T>(result)} / static_cast<unsigned>(ranks));
    } else {
      using calculated = std::conditional_t<std::is_same_v<T, double>, double, float>;
      auto const value = static_cast<calculated>(result);
      return static_cast<T>(std::is_same_v<Op, ringlet::average> ? value / static_cast<calculated>(ranks) : value);
    }
  }
}

}  // namespace perf
