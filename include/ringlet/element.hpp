// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ringlet/config.hpp"

namespace ringlet {

/// A floating-point number of 8 or 16 bits that is stored and sent, and computed with as `float`.
///
/// Converts to `float` without loss and without asking, so that it compares and calculates as its value does; back only
/// when asked (`float16{x}`), rounding to the nearest value and to the even one of two. A NaN stays a NaN and keeps its
/// sign. Conversion is constant-expression code for host and device, and the same bits everywhere. Layout, size and
/// alignment are those of CUDA's type of the same format.
///
/// Too large a value becomes infinity, but in an 8-bit format, infinity included, the largest finite value: what
/// CUDA's conversion does unless told otherwise.
/// @tparam ExponentBits bits of the exponent
/// @tparam MantissaBits bits of the mantissa, without the leading one
/// @tparam Infinite whether all-ones in the exponent mean infinity and NaN, as in IEEE 754; if not, only all-ones in
///   exponent and mantissa mean NaN and there is no infinity (the "fn" of OCP's e4m3fn)
template <int ExponentBits, int MantissaBits, bool Infinite = true>
class small_float {
 public:
  /// The unsigned integer that holds the bits.
  using bits_type = std::conditional_t<ExponentBits + MantissaBits == 15, std::uint16_t, std::uint8_t>;

  /// Holds no particular value, as a `float` does.
  small_float() = default;
  /// Rounds `value`.
  RINGLET_HD constexpr explicit small_float(float value) : bits_(encode(__builtin_bit_cast(std::uint32_t, value))) {}
  /// The number whose bits are `bits`.
  RINGLET_HD static constexpr small_float from_bits(bits_type bits) {
    small_float made(0.0F);
    made.bits_ = bits;
    return made;
  }
  /// The bits as they are stored.
  RINGLET_HD constexpr bits_type bits() const { return bits_; }
  /// The value, exactly.
  RINGLET_HD constexpr operator float() const { return __builtin_bit_cast(float, decode(bits_)); }

 private:
  static_assert(ExponentBits + MantissaBits == 7 || ExponentBits + MantissaBits == 15, "8 or 16 bits with the sign");

  // Where a pattern of this format stands in a float's: `shift` bits to the left, the exponent counted from elsewhere.
  static constexpr int shift = 23 - MantissaBits;
  static constexpr std::uint32_t sign_bit = std::uint32_t{1} << (ExponentBits + MantissaBits);
  static constexpr int sign_shift = 31 - ExponentBits - MantissaBits;
  static constexpr std::uint32_t one_exponent = std::uint32_t{1} << 23;
  static constexpr std::uint32_t rebias = std::uint32_t{128 - (1 << (ExponentBits - 1))} * one_exponent;
  static constexpr std::uint32_t smallest_normal = rebias + one_exponent;
  static constexpr std::uint32_t float_infinity = 0x7f800000, float_quiet = 0x00400000;
  // The first pattern that is no finite number, and what becomes of numbers too large.
  static constexpr std::uint32_t beyond = Infinite ? ((1U << ExponentBits) - 1) << MantissaBits : sign_bit - 1;
  static constexpr std::uint32_t overflow = sizeof(bits_type) == 1 ? beyond - 1 : beyond;

  // Both ways are free of branches, so that compilers turn a loop over them into vector code.
  RINGLET_HD static constexpr std::uint32_t either(bool first, std::uint32_t a, std::uint32_t b) {
    return b ^ ((a ^ b) & (0 - std::uint32_t{first}));
  }

  RINGLET_HD static constexpr std::uint32_t decode(std::uint32_t bits) {
    if constexpr (rebias == 0) return bits << shift;  // a float cut short
    std::uint32_t const magnitude = (bits & (sign_bit - 1)) << shift;
    // A subnormal is the difference between a number with the smallest exponent and that exponent's power of two.
    float const power = __builtin_bit_cast(float, smallest_normal);
    float const subnormal = __builtin_bit_cast(float, magnitude + smallest_normal) - power;
    std::uint32_t const quiet = either(Infinite && magnitude == (beyond << shift), 0, float_quiet);
    std::uint32_t const special = magnitude | float_infinity | quiet;
    std::uint32_t const finite =
        either(magnitude < one_exponent, __builtin_bit_cast(std::uint32_t, subnormal), magnitude + rebias);
    return (bits & sign_bit) << sign_shift | either(magnitude >= (beyond << shift), special, finite);
  }

  RINGLET_HD static constexpr bits_type encode(std::uint32_t value) {
    std::uint32_t const odd = (value >> shift) & 1;  // a tie goes up when this is set
    std::uint32_t const half = (std::uint32_t{1} << (shift - 1)) - 1;
    std::uint32_t const magnitude = value & 0x7fffffff;
    if constexpr (rebias == 0) {
      // All ones for a NaN: cheaper than to choose between two outcomes.
      auto const nan = static_cast<std::uint32_t>(static_cast<std::int32_t>(float_infinity - magnitude) >> 31);
      return static_cast<bits_type>(((value + ((half + odd) & ~nan)) | (float_quiet & nan)) >> shift);
    }
    bool const is_nan = magnitude > float_infinity;
    // Added to a power of two whose last bit weighs as much as the smallest subnormal, a float rounds itself.
    std::uint32_t const ruler = smallest_normal + shift * one_exponent;
    float const rounded = __builtin_bit_cast(float, magnitude) + __builtin_bit_cast(float, ruler);
    std::uint32_t bits = either(magnitude < smallest_normal, __builtin_bit_cast(std::uint32_t, rounded) - ruler,
                                (magnitude - rebias + half + odd) >> shift);
    bits = either(bits >= beyond, overflow, bits);
    std::uint32_t const nan = (magnitude >> shift & (sign_bit - 1)) | 1U << (MantissaBits - 1);
    return static_cast<bits_type>((value >> sign_shift & sign_bit) | either(is_nan, Infinite ? nan : beyond, bits));
  }

  bits_type bits_;
};

/// IEEE 754 binary16.
using float16 = small_float<5, 10>;
/// A `float` without its lower half.
using bfloat16 = small_float<8, 7>;
/// OCP's 8-bit format for range.
using float8_e5m2 = small_float<5, 2>;
/// OCP's 8-bit format for precision: no infinity, one NaN pattern for each sign, 448 the largest.
using float8_e4m3 = small_float<4, 3, false>;

/// The type in which reductions of a `T` calculate unless told otherwise (`accumulate_in`). `void`: they must be told.
///
/// To be specialised for a type that should not be calculated with as it is, such as a half type of another library:
/// ```
/// template <>
/// struct ringlet::computes_in<__half> {
///   using type = float;  // T{A} and A{T}, explicit or not, must convert
/// };
/// ```
/// @tparam T the element
template <class T>
struct computes_in {
  using type = T;
};
template <int ExponentBits, int MantissaBits, bool Infinite>
struct computes_in<small_float<ExponentBits, MantissaBits, Infinite>> {
  using type = std::conditional_t<ExponentBits + MantissaBits == 15, float, void>;
};

/// What a buffer may hold: a non-empty, trivially copyable object that one can assign, since its bytes travel. A
/// pointer is none: it means nothing on another rank.
template <class T>
concept element =
    std::is_object_v<T> && std::is_same_v<T, std::remove_cv_t<T>> && std::is_trivially_copyable_v<T> &&
    std::is_copy_constructible_v<T> && std::is_copy_assignable_v<T> && !std::is_empty_v<T> &&
    !std::is_array_v<T> && !std::is_pointer_v<T> && !std::is_member_pointer_v<T> && !std::is_null_pointer_v<T>;

/// A name for a type of one's own, to be specialised, by which ranks and errors know it. Types with the same label and
/// size count as the same type. Null: user types are told apart by size only.
/// ```
/// template <>
/// inline constexpr char const* ringlet::element_label<particle> = "particle";
/// ```
/// @tparam T the element
template <class T>
inline constexpr char const* element_label = nullptr;

namespace detail {

// std::complex and its kin, told by their looks: <complex> itself costs a third of a second a translation unit.
template <class T>
concept complex_like = requires(T const z) {
  typename T::value_type;
  requires std::is_floating_point_v<typename T::value_type>;
  requires sizeof(T) == 2 * sizeof(typename T::value_type);
  { z.real() } -> std::convertible_to<typename T::value_type>;
  { z.imag() } -> std::convertible_to<typename T::value_type>;
};

// Text of at most 22 characters that is put together when compiling.
struct short_text {
  char text[23] = {};
  std::size_t length = 0;

  constexpr short_text& operator<<(char const* words) {
    while (*words != 0 && length + 1 < sizeof text) text[length++] = *words++;
    return *this;
  }
  constexpr short_text& operator<<(std::size_t number) {
    if (number >= 10) *this << number / 10;
    char const digit[] = {static_cast<char>('0' + number % 10), 0};
    return *this << digit;
  }
};

template <class T>
constexpr short_text name_of() {
  short_text name;
  std::size_t const bits = 8 * sizeof(T);
  if (element_label<T> != nullptr) return name << element_label<T>;
  if constexpr (std::is_same_v<T, bool>) return name << "bool";
  if constexpr (std::is_same_v<T, float16>) return name << "float16";
  if constexpr (std::is_same_v<T, bfloat16>) return name << "bfloat16";
  if constexpr (std::is_same_v<T, float8_e4m3>) return name << "float8_e4m3";
  if constexpr (std::is_same_v<T, float8_e5m2>) return name << "float8_e5m2";
  if constexpr (std::is_integral_v<T>) return name << (std::is_signed_v<T> ? "int" : "uint") << bits;
  if constexpr (std::is_floating_point_v<T>) return name << "float" << bits;
  if constexpr (complex_like<T>) return name << "complex" << bits;
  return name << "user:" << sizeof(T) << "B";
}

template <class T>
inline constexpr short_text name_text = name_of<T>();

// FNV-1a, the public-domain hash of Fowler, Noll and Vo: the same everywhere, and short.
constexpr std::uint64_t fnv1a(char const* words, std::uint64_t hash = 0xcbf29ce484222325) {
  for (; *words != 0; ++words) hash = (hash ^ static_cast<unsigned char>(*words)) * 0x100000001b3;
  return hash;
}
constexpr std::uint64_t fnv1a(std::uint64_t number, std::uint64_t hash) {
  for (int i = 0; i < 8; ++i, number >>= 8) hash = (hash ^ (number & 0xff)) * 0x100000001b3;
  return hash;
}

}  // namespace detail

/// A short name of `T` for errors and tables: "float32", "int8", "bool", "bfloat16", "complex64", "user:12B", or its
/// `element_label`. At most 22 characters. `long` and `long long` are both "int64": they are the same on the wire.
/// @tparam T the element
template <class T>
inline constexpr char const* element_name = detail::name_text<T>.text;

/// A number by which ranks find that they hold different types: a hash of name and size. The same whatever the
/// compiler.
/// @tparam T the element
template <class T>
inline constexpr std::uint64_t element_id =
    detail::fnv1a(sizeof(T), detail::fnv1a(element_label<T> != nullptr ? element_label<T> : element_name<T>));

}  // namespace ringlet
