// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/element.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace ringlet;

namespace {

// What a format means, written down a second time: slowly, in double, without looking at bits of floats.
struct format {
  int exponent_bits, mantissa_bits;
  bool infinite, saturates;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  unsigned sign_bit() const { return 1U << (exponent_bits + mantissa_bits); }
  double value(unsigned bits) const {
    unsigned const fraction = bits & ((1U << mantissa_bits) - 1);
    unsigned const exponent = (bits & (sign_bit() - 1)) >> mantissa_bits;
    unsigned const top = (1U << exponent_bits) - 1;
    double magnitude;
    if (infinite && exponent == top)
      magnitude = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    else if (!infinite && (bits & (sign_bit() - 1)) == sign_bit() - 1)
      magnitude = std::numeric_limits<double>::quiet_NaN();
    else if (exponent == 0)
      magnitude = std::ldexp(fraction, 1 - bias() - mantissa_bits);
    else
      magnitude = std::ldexp(fraction + (1U << mantissa_bits), static_cast<int>(exponent) - bias() - mantissa_bits);
    return (bits & sign_bit()) != 0 ? -magnitude : magnitude;
  }
  // The finite values that are not negative, in order: the index is the pattern.
  std::vector<double> values() const {
    std::vector<double> all;
    for (unsigned bits = 0; bits < sign_bit() && std::isfinite(value(bits)); ++bits) all.push_back(value(bits));
    return all;
  }
  // The nearest of them, the even one of two; beyond the largest by half a step or more: see `saturates`.
  unsigned nearest(std::vector<double> const& all, double x) const {
    double const step = all.back() - all[all.size() - 2];
    if (x >= all.back() + step / 2) return static_cast<unsigned>(saturates ? all.size() - 1 : all.size());
    auto const above = static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), x) - all.begin());
    if (above == 0) return 0;
    if (above == all.size()) return static_cast<unsigned>(above - 1);
    double const up = all[above] - x, down = x - all[above - 1];
    if (up == down) return static_cast<unsigned>(above % 2 == 0 ? above : above - 1);
    return static_cast<unsigned>(up < down ? above : above - 1);
  }
};

template <class T>
constexpr format format_of = {};
template <>
constexpr format format_of<float16> = {5, 10, true, false};
template <>
constexpr format format_of<bfloat16> = {8, 7, true, false};
template <>
constexpr format format_of<float8_e5m2> = {5, 2, true, true};
template <>
constexpr format format_of<float8_e4m3> = {4, 3, false, true};

template <class T>
void check_rounding(std::vector<double> const& all, float x) {
  format const f = format_of<T>;
  unsigned const expected = f.nearest(all, std::fabs(static_cast<double>(x))) | (std::signbit(x) ? f.sign_bit() : 0);
  unsigned const rounded = T(x).bits();
  if (rounded != expected)
    FAIL_CHECK("float " << std::bit_cast<std::uint32_t>(x) << ": " << rounded << ", not " << expected);
}

}  // namespace

TEST_CASE_TEMPLATE("every pattern has the value that its format gives it", T, float16, bfloat16, float8_e5m2,
                   float8_e4m3) {
  format const f = format_of<T>;
  for (unsigned bits = 0; bits < 2 * f.sign_bit(); ++bits) {
    float const value = T::from_bits(static_cast<typename T::bits_type>(bits));
    double const expected = f.value(bits);
    bool const same = std::isnan(expected) ? std::isnan(value) && std::signbit(value) == std::signbit(expected)
                                           : std::bit_cast<std::uint64_t>(static_cast<double>(value)) ==
                                                 std::bit_cast<std::uint64_t>(expected);
    if (!same) FAIL_CHECK("pattern " << bits << ": " << value << ", not " << expected);
  }
}

TEST_CASE_TEMPLATE("every pattern survives the way to float and back", T, float16, bfloat16, float8_e5m2, float8_e4m3) {
  format const f = format_of<T>;
  for (unsigned bits = 0; bits < 2 * f.sign_bit(); ++bits) {
    double const value = f.value(bits);
    unsigned const back = T(float(T::from_bits(static_cast<typename T::bits_type>(bits)))).bits();
    if (std::isnan(value))
      CHECK_MESSAGE((std::isnan(f.value(back)) && ((back ^ bits) & f.sign_bit()) == 0), bits);
    else if (std::isinf(value) && f.saturates)
      CHECK_MESSAGE(back == bits - 1, bits);
    else if (back != bits)
      FAIL_CHECK("pattern " << bits << " came back as " << back);
  }
}

TEST_CASE_TEMPLATE("every value between two neighbours goes to the nearer, a tie to the even one", T, float16, bfloat16,
                   float8_e5m2, float8_e4m3) {
  std::vector<double> const all = format_of<T>.values();
  float const largest = std::numeric_limits<float>::max();
  for (std::size_t i = 0; i < all.size(); ++i) {
    double const next = i + 1 < all.size() ? all[i + 1] : all[i] + (all[i] - all[i - 1]);
    float const middle = static_cast<float>((all[i] + next) / 2);
    if (middle > largest) break;
    for (float const x : {static_cast<float>(all[i]), std::nextafter(static_cast<float>(all[i]), largest), middle,
                          std::nextafter(middle, 0.0F), std::nextafter(middle, largest)}) {
      check_rounding<T>(all, x);
      check_rounding<T>(all, -x);
    }
  }
}

TEST_CASE_TEMPLATE("floats all over the range are rounded", T, float16, bfloat16, float8_e5m2, float8_e4m3) {
  std::vector<double> const all = format_of<T>.values();
  for (std::uint64_t bits = 0; bits < 0x7f800000; bits += 7919)
    check_rounding<T>(all, std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  check_rounding<T>(all, std::numeric_limits<float>::max());
  check_rounding<T>(all, std::numeric_limits<float>::denorm_min());
}

TEST_CASE("infinity stays, except in 8 bits, where it saturates as in CUDA") {
  float const infinity = std::numeric_limits<float>::infinity();
  CHECK(float16(infinity).bits() == 0x7c00);
  CHECK(bfloat16(-infinity).bits() == 0xff80);
  CHECK(float(float8_e5m2(infinity)) == 57344);
  CHECK(float(float8_e4m3(-infinity)) == -448);
  CHECK(float(float8_e5m2::from_bits(0x7c)) == infinity);
}

TEST_CASE_TEMPLATE("every NaN of float stays NaN and keeps its sign", T, float16, bfloat16, float8_e5m2, float8_e4m3) {
  for (std::uint32_t bits : {0x7f800001U, 0x7fc00000U, 0x7fffffffU, 0x7f80ffffU, 0x7fbfffffU, 0x7f810000U})
    for (std::uint32_t sign : {0U, 0x80000000U}) {
      float const back = T(std::bit_cast<float>(bits | sign));
      CHECK(std::isnan(back));
      CHECK(std::signbit(back) == (sign != 0));
    }
}

TEST_CASE("they compare and calculate as their values do") {
  CHECK(float16(1) < float16(2));
  CHECK(float16(0.0F) == float16(-0.0F));
  CHECK_FALSE(float16::from_bits(0x7e00) == float16::from_bits(0x7e00));
  CHECK(bfloat16(1.5F) + bfloat16(2.25F) == 3.75F);
  CHECK(float8_e4m3(3.0F) == 3);
}

TEST_CASE("names are short and the same whatever the spelling of a type") {
  struct particle {
    float x, y, z;
  };
  CHECK(std::string(element_name<float>) == "float32");
  CHECK(std::string(element_name<double>) == "float64");
  CHECK(std::string(element_name<signed char>) == "int8");
  CHECK(std::string(element_name<unsigned long long>) == "uint64");
  CHECK(std::string(element_name<bool>) == "bool");
  CHECK(std::string(element_name<float16>) == "float16");
  CHECK(std::string(element_name<float8_e4m3>) == "float8_e4m3");
  CHECK(std::string(element_name<std::complex<float>>) == "complex64");
  CHECK(std::string(element_name<std::complex<double>>) == "complex128");
  CHECK(std::string(element_name<particle>) == "user:12B");
  CHECK(element_id<long> == element_id<long long>);
}

TEST_CASE("ids of all built-in types differ") {
  std::vector<std::uint64_t> ids = {element_id<bool>,
                                    element_id<std::int8_t>,
                                    element_id<std::uint8_t>,
                                    element_id<std::int16_t>,
                                    element_id<std::uint16_t>,
                                    element_id<std::int32_t>,
                                    element_id<std::uint32_t>,
                                    element_id<std::int64_t>,
                                    element_id<std::uint64_t>,
                                    element_id<float>,
                                    element_id<double>,
                                    element_id<float16>,
                                    element_id<bfloat16>,
                                    element_id<float8_e4m3>,
                                    element_id<float8_e5m2>,
                                    element_id<std::complex<float>>,
                                    element_id<std::complex<double>>};
  std::sort(ids.begin(), ids.end());
  CHECK(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
  CHECK(std::find(ids.begin(), ids.end(), std::uint64_t{0}) == ids.end());
}
