// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/reduction.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ringlet/combine.hpp"

using namespace ringlet;

namespace {

template <class T>
constexpr bool is_integer = std::is_integral_v<T> && !std::is_same_v<T, bool>;
template <class T>
constexpr bool is_complex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

// The operators a second time, naively. Integers in 64 bits, modulo what their type holds.
template <class T, class A>
T naive(sum, A a, A b) {
  if constexpr (is_integer<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  else if constexpr (std::is_same_v<T, bool>)
    return a || b;
  else
    return static_cast<T>(a + b);
}
template <class T, class A>
T naive(product, A a, A b) {
  if constexpr (is_integer<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  else if constexpr (std::is_same_v<T, bool>)
    return a && b;
  else if constexpr (is_complex<T>)
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  else
    return static_cast<T>(a * b);
}
template <class T, class A>
T naive(minimum, A a, A b) {
  if constexpr (std::is_floating_point_v<A>) {
    if (std::isnan(a) || std::isnan(b)) return static_cast<T>(std::numeric_limits<A>::quiet_NaN());
    if (a == 0 && b == 0) return static_cast<T>(std::signbit(a) ? a : b);
  }
  return static_cast<T>(a < b ? a : b);
}
template <class T, class A>
T naive(maximum, A a, A b) {
  if constexpr (std::is_floating_point_v<A>) {
    if (std::isnan(a) || std::isnan(b)) return static_cast<T>(std::numeric_limits<A>::quiet_NaN());
    if (a == 0 && b == 0) return static_cast<T>(std::signbit(a) ? b : a);
  }
  return static_cast<T>(a > b ? a : b);
}
template <class T, class A>
T naive(bit_and, A a, A b) {
  return static_cast<T>(a & b);
}
template <class T, class A>
T naive(bit_or, A a, A b) {
  return static_cast<T>(a | b);
}
template <class T, class A>
T naive(bit_xor, A a, A b) {
  return static_cast<T>(a ^ b);
}
template <class T, class A>
T naive(logical_and, A a, A b) {
  return static_cast<T>(a && b);
}
template <class T, class A>
T naive(logical_or, A a, A b) {
  return static_cast<T>(a || b);
}
template <class T, class A>
T naive(logical_xor, A a, A b) {
  return static_cast<T>(!a != !b);
}

template <class T>
std::vector<T> values(std::size_t n, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<T> all(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t const r = random();
    if constexpr (std::is_same_v<T, bool>)
      all[i] = r & 1;
    else if constexpr (is_integer<T>)
      all[i] = static_cast<T>(r % 7 == 0 ? 0 : r);
    // Small integers and halves: complex products of them are exact in any order.
    else if constexpr (is_complex<T>)
      all[i] = T(static_cast<float>(r % 31) / 2 - 7, static_cast<float>((r >> 32) % 31) / 2 - 7);
    else {
      float const odd[] = {0.0F,
                           -0.0F,
                           std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN(),
                           -std::numeric_limits<float>::infinity(),
                           1e-40F};
      float const plain =
          std::ldexp(static_cast<float>(static_cast<std::int32_t>(r)), static_cast<int>(r >> 32) % 40 - 36);
      all[i] = static_cast<T>(r % 5 == 0 ? odd[(r >> 40) % 6] : plain);
    }
  }
  return all;
}

// Bit for bit, but for the payload of a NaN: compilers may exchange the operands of a sum.
template <class T>
bool same(T const& a, T const& b) {
  if constexpr (std::is_floating_point_v<T> || std::is_convertible_v<T, float>)
    if (std::isnan(static_cast<double>(a)) && std::isnan(static_cast<double>(b))) return true;
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class T, class Op>
void check_against_naive(Op op) {
  using A = typename arithmetic<T, Op>::accumulator;
  auto const got = values<T>(1000, 1), own = values<T>(1000, 2);
  for (std::size_t i = 0; i < got.size(); ++i) {
    auto const g = static_cast<A>(T(got[i])), o = static_cast<A>(T(own[i]));
    T const result = static_cast<T>(arithmetic<T, Op>(op, 2).add(g, o));
    if (!same(result, naive<T>(op, g, o))) FAIL_CHECK(operation_name<Op> << " of " << element_name<T> << " at " << i);
  }
}

template <class Op>
void check_integers(Op op) {
  check_against_naive<std::int8_t>(op), check_against_naive<std::uint8_t>(op);
  check_against_naive<std::int16_t>(op), check_against_naive<std::uint16_t>(op);
  check_against_naive<std::int32_t>(op), check_against_naive<std::uint32_t>(op);
  check_against_naive<std::int64_t>(op), check_against_naive<std::uint64_t>(op);
  check_against_naive<bool>(op);
}
template <class Op>
void check_reals(Op op) {
  check_against_naive<float>(op), check_against_naive<double>(op);
  check_against_naive<float16>(op), check_against_naive<bfloat16>(op);
}
template <class Op>
void check_complex(Op op) {
  check_against_naive<std::complex<float>>(op), check_against_naive<std::complex<double>>(op);
}

// Takes the elements one by one: the arithmetic without the vector code, which is combine_test's.
struct one_by_one : this_thread {};

// A whole chain of ranks, each with one element, as a ring runs it: what every rank keeps.
template <class T, class... Op>
T chain(std::vector<T> const& x, Op... ops) {
  auto const all = std::vector{ops...};
  using O = typename decltype(all)::value_type;
  typename arithmetic<T, O>::wire v{};
  T kept{};
  for (std::size_t k = 0; k < x.size(); ++k) {
    arithmetic<T, O> const how(all[k % all.size()], static_cast<int>(x.size()));
    bool const last = k + 1 == x.size();
    combine(one_by_one{}, &v, last ? &kept : nullptr, k > 0 ? &v : nullptr, &x[k], 1, how, last);
  }
  return kept;
}

}  // namespace

TEST_CASE("C22 C27 every operator on every type equals the naive one") {
  check_integers(sum{}), check_integers(product{}), check_integers(minimum{}), check_integers(maximum{});
  check_integers(bit_and{}), check_integers(bit_or{}), check_integers(bit_xor{});
  check_integers(logical_and{}), check_integers(logical_or{}), check_integers(logical_xor{});
  check_reals(sum{}), check_reals(product{}), check_reals(minimum{}), check_reals(maximum{});
  check_complex(sum{}), check_complex(product{});
}

TEST_CASE("C24 the average of integers is the sum, divided once and cut towards zero") {
  CHECK(chain<std::int32_t>({1, 2, 2, 2}, average{}) == 1);
  CHECK(chain<std::int32_t>({-1, -2, -2, -2}, average{}) == -1);
  CHECK(chain<std::int32_t>({3, 3, 3}, average{}) == 3);
  CHECK(chain<std::uint64_t>({~0ULL, 0}, average{}) == ~0ULL / 2);
  CHECK(chain<std::int8_t>(std::vector<std::int8_t>(200, 0), average{}) == 0);  // 200 is no int8
  CHECK(chain<std::uint32_t>({3'000'000'000U, 1'000'000'000U}, average{}) == 2'000'000'000U);
}

TEST_CASE("C25 the average of floats is the sum divided by the number of ranks") {
  std::vector<float> const x = {0.1F, 0.2F, 0.7F, 1e8F, -3.0F};
  CHECK(chain<float>(x, average{}) == chain<float>(x, sum{}) / 5);
  CHECK(chain<float>({2.5F}, average{}) == 2.5F);
  CHECK(chain<std::complex<float>>({{1, 2}, {3, 4}}, average{}) == std::complex<float>(2, 3));
}

TEST_CASE("C30 sums and products of integers wrap around") {
  CHECK(chain<std::int8_t>({120, 100}, sum{}) == -36);
  CHECK(chain<std::int32_t>({std::numeric_limits<std::int32_t>::max(), 1}, sum{}) ==
        std::numeric_limits<std::int32_t>::min());
  CHECK(chain<std::uint16_t>({65535, 65535}, product{}) == 1);  // as int this would overflow
  CHECK(chain<std::int64_t>({std::numeric_limits<std::int64_t>::min(), -1}, product{}) ==
        std::numeric_limits<std::int64_t>::min());
  CHECK(chain<std::int8_t>({120, 100}, accumulate_in<std::int32_t>(average{})) == 110);  // divided before it is cut
}

TEST_CASE("C29 minimum and maximum are exact, whoever holds the extreme") {
  for (std::size_t holder = 0; holder < 4; ++holder) {
    std::vector<float> x = {3, 3, 3, 3};
    x[holder] = -7.25F;
    CHECK(chain<float>(x, minimum{}) == -7.25F);
    x[holder] = 7.25F;
    CHECK(chain<float>(x, maximum{}) == 7.25F);
  }
}

TEST_CASE_TEMPLATE("minimum and maximum give NaN whichever rank holds it", T, float, double, float16, bfloat16) {
  for (std::size_t holder = 0; holder < 4; ++holder) {
    std::vector<T> x(4, T(1.0F));
    x[holder] = T(std::numeric_limits<float>::quiet_NaN());
    CHECK(std::isnan(static_cast<float>(chain<T>(x, minimum{}))));
    CHECK(std::isnan(static_cast<float>(chain<T>(x, maximum{}))));
  }
}

TEST_CASE_TEMPLATE("minimum and maximum have the same bits in either order, zeros and NaNs included", T, float,
                   double) {
  auto const a = values<T>(500, 3), b = values<T>(500, 4);
  for (std::size_t i = 0; i < a.size(); ++i) {
    T const x = minimum{}(a[i], b[i]), y = minimum{}(b[i], a[i]), z = maximum{}(a[i], b[i]), w = maximum{}(b[i], a[i]);
    CHECK(std::memcmp(&x, &y, sizeof x) == 0);
    CHECK(std::memcmp(&z, &w, sizeof z) == 0);
  }
  CHECK(std::signbit(minimum{}(T(0), T(-0.0))));
  CHECK_FALSE(std::signbit(maximum{}(T(-0.0), T(0))));
}

TEST_CASE("C32 the product of complex numbers is no product of pairs") {
  CHECK(chain<std::complex<float>>({{1, 2}, {3, 4}}, product{}) == std::complex<float>(-5, 10));
}

TEST_CASE("a scaled sum takes each rank's own factor, once") {
  CHECK(chain<float>({10, 100, 1000}, scaled_sum{0.5F}, scaled_sum{0.25F}, scaled_sum{2.0F}) == 5 + 25 + 2000);
  CHECK(chain<float>({10}, scaled_sum{0.5F}) == 5);
  CHECK(chain<float16>({float16(8.0F), float16(8.0F)}, scaled_sum{0.5F}) == 8);
}

TEST_CASE("C22 16-bit floats accumulate in float, and round once a hop") {
  // 1 + 2^-8 is no bfloat16, but it is a float: the average needs it.
  CHECK(float(chain<bfloat16>({bfloat16(1.0F), bfloat16(0.0078125F)}, average{})) == 0.50390625F);
  CHECK(float(chain<float16>({float16(60000.0F), float16(-60000.0F)}, sum{})) == 0);
  CHECK(std::isinf(float(chain<float16>({float16(60000.0F), float16(60000.0F)}, sum{}))));
  CHECK(float(chain<float16>({float16(60000.0F), float16(60000.0F)}, average{})) == 60000);  // finished before rounding
}

TEST_CASE("C26 8-bit floats reduce in the accumulator they are given") {
  auto const op = accumulate_in<float>(sum{});
  CHECK(float(chain<float8_e4m3>({float8_e4m3(1.5F), float8_e4m3(2.5F)}, op)) == 4);
  CHECK(float(chain<float8_e5m2>({float8_e5m2(1.5F), float8_e5m2(0.5F)}, op)) == 2);
}

TEST_CASE("policies compose in any order") {
  auto const a = accumulate_in<double>(travel_as<bfloat16>(sum{}));
  auto const b = travel_as<bfloat16>(accumulate_in<double>(sum{}));
  CHECK(std::is_same_v<decltype(a), decltype(b)>);
  using how = arithmetic<float, std::remove_const_t<decltype(a)>>;
  CHECK(std::is_same_v<how::accumulator, double>);
  CHECK(std::is_same_v<how::wire, bfloat16>);
  CHECK(std::is_same_v<how::element, float>);
}

TEST_CASE("what a rank keeps is what has travelled, even with one rank") {
  float const third = 1.0F / 3;
  CHECK(chain<float>({third}, travel_as<bfloat16>(sum{})) == float(bfloat16(third)));
  CHECK(chain<float>({third, third}, travel_as<float16>(sum{})) == float(float16(float(float16(third)) + third)));
}

TEST_CASE("C33 a user's type and operator") {
  struct best {
    float value;
    std::int32_t index;
  };
  auto const op = commutative(
      [](best a, best b) { return a.value > b.value || (a.value == b.value && a.index < b.index) ? a : b; });
  best const most = chain<best>({{1, 0}, {5, 1}, {5, 2}, {2, 3}}, op);
  CHECK(most.value == 5);
  CHECK(most.index == 1);
}

TEST_CASE("names and ids tell reductions apart") {
  CHECK(std::string(operation_name<sum>) == "sum");
  CHECK(std::string(operation_name<scaled_sum<float>>) == "scaled_sum");
  auto const travelling = travel_as<bfloat16>(sum{});
  CHECK(std::string(operation_name<std::remove_const_t<decltype(travelling)>>) == "sum");
  auto const mine = commutative([](int a, int) { return a; });
  CHECK(std::string(operation_name<std::remove_const_t<decltype(mine)>>) == "user");
  CHECK(reduction_id<sum> != reduction_id<product>);
  CHECK(reduction_id<sum> != reduction_id<with_policies<sum, void, bfloat16>>);
  CHECK(reduction_id<with_policies<sum, bfloat16, void>> != reduction_id<with_policies<sum, void, bfloat16>>);
}
