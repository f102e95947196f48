// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/reduction.hpp"

#include <cstdint>
#include <type_traits>

using namespace ringlet;

// -- who says that an operator may be applied in any order ------------------------------------------------------------
struct silent {
  constexpr int operator()(int a, int b) const { return a * 31 + b; }
};
struct refusing : silent {
  using commutative_and_associative = std::false_type;
};
struct declaring {
  using commutative_and_associative = std::true_type;
  constexpr int operator()(int a, int b) const { return a > b ? a : b; }
};
struct foreign {
  constexpr int operator()(int a, int b) const { return a | b; }
};
template <>
inline constexpr bool ringlet::is_commutative_and_associative<foreign> = true;

static_assert(!is_commutative_and_associative<silent>, "C34");
static_assert(!is_commutative_and_associative<refusing>);
static_assert(is_commutative_and_associative<declaring> && is_commutative_and_associative<foreign>);
static_assert(is_commutative_and_associative<decltype(commutative(silent{}))>);
static_assert(is_commutative_and_associative<sum> && is_commutative_and_associative<scaled_sum<float>>);

// -- what arithmetic is made of ---------------------------------------------------------------------------------------
template <class T, class Op>
using accumulator = typename arithmetic<T, Op>::accumulator;
static_assert(std::is_same_v<accumulator<float, sum>, float> && std::is_same_v<accumulator<int, sum>, int>);
static_assert(std::is_same_v<accumulator<bfloat16, sum>, float> &&
              std::is_same_v<accumulator<float16, average>, float>);
static_assert(std::is_same_v<accumulator<float, decltype(accumulate_in<double>(sum{}))>, double>);
static_assert(std::is_same_v<arithmetic<float, decltype(travel_as<bfloat16>(sum{}))>::wire, bfloat16>);
static_assert(std::is_same_v<arithmetic<float, sum>::wire, float>);
static_assert(std::is_same_v<arithmetic<float8_e4m3, keep>::wire, float8_e4m3>,
              "C26: only kept, it needs no accumulator");
static_assert(std::is_same_v<accumulator<float8_e4m3, decltype(accumulate_in<float>(sum{}))>, float>);
static_assert(arithmetic<float, average>::finishes && !arithmetic<float, average>::lifts);
static_assert(arithmetic<float, scaled_sum<float>>::lifts && !arithmetic<float, scaled_sum<float>>::finishes);
static_assert(!arithmetic<float, sum>::lifts && !arithmetic<float, sum>::finishes && !arithmetic<float, sum>::keeps);
static_assert(arithmetic<float, keep>::keeps);
static_assert(std::is_trivially_copyable_v<arithmetic<float, scaled_sum<float>>>);

// -- policies compose, and the later one counts -----------------------------------------------------------------------
static_assert(std::is_same_v<decltype(accumulate_in<double>(travel_as<bfloat16>(sum{}))),
                             decltype(travel_as<bfloat16>(accumulate_in<double>(sum{})))>);
static_assert(std::is_same_v<decltype(accumulate_in<double>(accumulate_in<float>(sum{}))),
                             decltype(accumulate_in<double>(sum{}))>);

static_assert(reduction_id<decltype(accumulate_in<float>(sum{}))> !=
                  reduction_id<decltype(travel_as<std::int8_t>(accumulate_in<float>(sum{})))>,
              "no policy is not a policy of some type");

// -- constant expressions ---------------------------------------------------------------------------------------------
static_assert(sum{}(std::int8_t{120}, std::int8_t{100}) == -36,
              "C30: in a constant expression, overflow would not compile");
static_assert(product{}(std::uint16_t{65535}, std::uint16_t{65535}) == 1);
static_assert(sum{}(INT64_MAX, std::int64_t{1}) == INT64_MIN);
static_assert(minimum{}(-0.0F, 0.0F) == 0 && minimum{}(3, 4) == 3 && maximum{}(3.0, 4.0) == 4);
static_assert(minimum{}(__builtin_nanf(""), 1.0F) != minimum{}(1.0F, __builtin_nanf("")), "both are NaN");
static_assert(logical_xor{}(5, 3) == 0 && logical_xor{}(5, 0) == 1 && logical_and{}(2, 1) == 1 && bit_and{}(2, 1) == 0);
static_assert(average{}.finish(-7, 2) == -3, "C24: cut towards zero");
static_assert(arithmetic<float, scaled_sum<float>>(scaled_sum{0.5F}, 2).lift(3.0F) == 1.5F);
