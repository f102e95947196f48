// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/element.hpp"

#include <complex>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

using namespace ringlet;

// -- layout: that of CUDA's types -------------------------------------------------------------------------------------
static_assert(sizeof(float16) == 2 && alignof(float16) == 2);
static_assert(sizeof(bfloat16) == 2 && alignof(bfloat16) == 2);
static_assert(sizeof(float8_e4m3) == 1 && sizeof(float8_e5m2) == 1);
static_assert(std::is_trivially_copyable_v<float16> && std::is_trivially_default_constructible_v<float16>);
static_assert(std::is_standard_layout_v<float8_e4m3>);

// -- conversions are constant expressions -----------------------------------------------------------------------------
static_assert(float16(1.0F).bits() == 0x3c00 && float16(-2.0F).bits() == 0xc000);
static_assert(float16(65504.0F).bits() == 0x7bff && float16(65520.0F).bits() == 0x7c00);
static_assert(float16(0x1p-24F).bits() == 1 && float16(0x1p-25F).bits() == 0 && float16(0x1.8p-25F).bits() == 1);
static_assert(bfloat16(1.0F).bits() == 0x3f80 && bfloat16(1.00390625F).bits() == 0x3f80);
static_assert(float8_e4m3(448.0F).bits() == 0x7e && float8_e4m3(1e6F).bits() == 0x7e);
static_assert(float8_e5m2(57344.0F).bits() == 0x7b && float8_e5m2(1e6F).bits() == 0x7b);
static_assert(float(float16::from_bits(0x3555)) == 0x1.554p-2F);
static_assert(float(float8_e4m3::from_bits(1)) == 0x1p-9F);

// -- to float without asking, back only when asked --------------------------------------------------------------------
static_assert(std::is_convertible_v<float16, float> && !std::is_convertible_v<float, float16>);
static_assert(std::is_constructible_v<float16, float> && !std::is_convertible_v<bfloat16, float16>);
static_assert(float16(1.0F) < float16(2.0F) && float16(0.0F) == float16(-0.0F));

// -- what is an element, and what is none -----------------------------------------------------------------------------
struct plain {
  float x;
  int y;
};
struct empty {};
struct without_default {
  explicit without_default(int);
  int x;
};
enum class colour : std::uint8_t { red };
static_assert(element<bool> && element<char> && element<std::int8_t> && element<std::uint64_t>);
static_assert(element<float> && element<double> && element<std::complex<float>> && element<std::complex<double>>);
static_assert(element<float16> && element<bfloat16> && element<float8_e4m3> && element<float8_e5m2>);
static_assert(element<plain> && element<colour> && element<without_default>);
static_assert(!element<empty>, "C05: of no size");
static_assert(!element<void> && !element<int&> && !element<int const> && !element<int()>);
static_assert(!element<int*> && !element<int plain::*> && !element<std::nullptr_t>);
static_assert(!element<int[2]>);
static_assert(!element<std::string> && !element<std::unique_ptr<int>>);

// -- foreign types opt in ---------------------------------------------------------------------------------------------
struct foreign_half {
  std::uint16_t bits;
  explicit foreign_half(float);
  explicit operator float() const;
};
template <>
struct ringlet::computes_in<foreign_half> {
  using type = float;
};
template <>
inline constexpr char const* ringlet::element_label<foreign_half> = "float16";

static_assert(std::is_same_v<computes_in<foreign_half>::type, float>);
static_assert(element_id<foreign_half> == element_id<float16>, "so labelled, it meets ringlet's own");

// -- the type to calculate in -----------------------------------------------------------------------------------------
static_assert(std::is_same_v<computes_in<float16>::type, float> && std::is_same_v<computes_in<bfloat16>::type, float>);
static_assert(std::is_same_v<computes_in<double>::type, double> && std::is_same_v<computes_in<int>::type, int>);
static_assert(std::is_void_v<computes_in<float8_e4m3>::type>);

// -- ids are part of the wire: they do not change from compiler to compiler -------------------------------------------
static_assert(element_id<float> == 0x3b37c100cea7a8b4 && element_id<bfloat16> == 0xb9f0907818a77c7c);
