// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ringlet/element.hpp"
#include "ringlet/reduction.hpp"

namespace suite {

// An element of the user's own: a value and where it was found.
struct found {
  float value;
  std::int32_t where;
};
struct largest {
  static constexpr char const* name = "largest";
  using commutative_and_associative = std::true_type;
  found operator()(found const& a, found const& b) const {
    if (a.value != b.value) return a.value < b.value ? b : a;
    return a.where < b.where ? a : b;
  }
};
// As many bytes as no word has, and no alignment.
struct odd_bytes {
  std::uint8_t parts[3];
};
struct add_parts {
  using commutative_and_associative = std::true_type;
  odd_bytes operator()(odd_bytes const& a, odd_bytes const& b) const {
    odd_bytes result{};
    for (int i = 0; i < 3; ++i) result.parts[i] = static_cast<std::uint8_t>(a.parts[i] + b.parts[i]);
    return result;
  }
};

// A number that looks random and is the same everywhere (the finaliser of MurmurHash3).
constexpr std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ x >> 33) * 0xff51afd7ed558ccd;
  x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53;
  return x ^ x >> 33;
}
constexpr std::uint64_t mixed(int rank, std::size_t i) {
  return mixed((static_cast<std::uint64_t>(rank) + 1) * 0x9e3779b97f4a7c15 + i);
}

// Element i of a rank's input. Integers of all values, since they wrap; floats that round at every addition and whose
// products stay finite for any number of ranks here.
template <class T>
T sample(int rank, std::size_t i) {
  std::uint64_t const bits = mixed(rank, i);
  auto const part = [&](int shift) {
    float const magnitude = 0.75F + static_cast<float>(bits >> shift & 0xffff) / 131072.0F;
    return (bits >> (shift + 16) & 1) != 0 ? -magnitude : magnitude;
  };
  if constexpr (std::is_same_v<T, bool>)
    return (bits & 1) != 0;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(bits);
  else if constexpr (std::is_same_v<T, found>)
    return {static_cast<float>(bits % 7), rank};
  else if constexpr (std::is_same_v<T, odd_bytes>)
    return {
        {static_cast<std::uint8_t>(bits), static_cast<std::uint8_t>(bits >> 8), static_cast<std::uint8_t>(bits >> 16)}};
  else if constexpr (ringlet::detail::complex_like<T>)
    return {part(0), part(20)};
  else
    return static_cast<T>(part(0));
}

// The reduction of one element, by one rank alone, as the documentation says it: contributions in the order of ranks
// chunk+1, chunk+2, ..., chunk; what travels is rounded to the type on the wire at each hop.
template <class T, class Op, class Input>
T reduced_alone(int chunk, int size, Op (*op_of)(int rank), Input input) {
  using arith = ringlet::arithmetic<T, Op>;
  using A = typename arith::accumulator;
  using W = typename arith::wire;
  auto const how = [&](int rank) { return arith(op_of(rank), size); };
  auto const lifted = [&](int rank) { return how(rank).lift(static_cast<A>(input(rank))); };
  int const first = (chunk + 1) % size;
  if (size == 1) return static_cast<T>(static_cast<W>(how(0).finish(lifted(0))));
  W v = arith::lifts ? static_cast<W>(lifted(first)) : static_cast<W>(input(first));
  for (int k = 2; k <= size; ++k) {
    int const rank = (chunk + k) % size;
    A const a = how(rank).add(static_cast<A>(v), lifted(rank));
    v = static_cast<W>(k == size ? how(rank).finish(a) : a);
  }
  return static_cast<T>(v);
}

// An element, an operator with which to reduce it, and a way to gather it.
template <class T, auto Op, auto How = ringlet::keep{}>
struct pairing {
  using element = T;
  using op_type = std::remove_const_t<decltype(Op)>;
  static constexpr auto op(int) { return Op; }
  static constexpr auto how() { return How; }
};
// Each rank's own factor.
struct scaled {
  using element = float;
  using op_type = ringlet::scaled_sum<float>;
  static constexpr op_type op(int rank) { return {1.0F / static_cast<float>(rank + 3)}; }
  static constexpr auto how() { return ringlet::keep{}; }
};

template <class... P>
struct pairings {};

// Every kind of element, operator and policy. All types with all operators are the business of the tests of
// reduction.hpp and combine.hpp: here it is their way between ranks.
using integers =
    pairings<pairing<std::int8_t, ringlet::sum{}>, pairing<std::uint16_t, ringlet::maximum{}>,
             pairing<std::int32_t, ringlet::average{}>, pairing<std::uint64_t, ringlet::bit_xor{}>,
             pairing<bool, ringlet::logical_or{}>, pairing<odd_bytes, add_parts{}>, pairing<found, largest{}>>;
using floats = pairings<pairing<float, ringlet::sum{}>, scaled, pairing<double, ringlet::product{}>,
                        pairing<ringlet::float16, ringlet::minimum{}>, pairing<ringlet::bfloat16, ringlet::average{}>,
                        pairing<std::complex<float>, ringlet::product{}>,
                        pairing<ringlet::float8_e4m3, ringlet::accumulate_in<float>(ringlet::sum{})>,
                        pairing<float, ringlet::travel_as<ringlet::bfloat16>(ringlet::sum{}),
                                ringlet::travel_as<ringlet::bfloat16>(ringlet::keep{})>>;
// Some of them for the collectives with a root, which go the same ways.
using with_roots = pairings<pairing<odd_bytes, add_parts{}>, scaled,
                            pairing<float, ringlet::travel_as<ringlet::bfloat16>(ringlet::sum{}),
                                    ringlet::travel_as<ringlet::bfloat16>(ringlet::keep{})>>;

}  // namespace suite
