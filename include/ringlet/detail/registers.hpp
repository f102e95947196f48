// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ringlet/element.hpp"

// Vector registers of x86-64, for the sums that most bytes go through: those of plain numbers and of the 16-bit floats.
// Compilers do turn a loop over elements into vector code, but pass each step's values through memory; here they stay
// in registers, which is what lets one core add as fast as memory delivers. Vectors are those of g++ and clang++, which
// work with the operators of the language.

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
#define RINGLET_X86 1
#define RINGLET_AVX2 [[gnu::target("avx2,f16c")]]
#define RINGLET_IN_AVX2 gnu::target("avx2,f16c"), gnu::always_inline
#else
#define RINGLET_X86 0
#define RINGLET_AVX2
#endif

namespace ringlet::detail {

// Whether elements T are added in type A by `vector_sum<T, A>`.
template <class T, class A>
inline constexpr bool has_vector_sum =
    RINGLET_X86 && ((std::is_same_v<T, A> && ((std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8) ||
                                              std::is_same_v<T, float> || std::is_same_v<T, double>)) ||
                    ((std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>)&&std::is_same_v<A, float>));

}  // namespace ringlet::detail

#if RINGLET_X86

namespace ringlet::detail {

template <class T>
struct vector_of {
  typedef T type __attribute__((vector_size(32)));
};
// Signed numbers are added as unsigned ones: that wraps around.
template <class T>
  requires std::is_integral_v<T>
struct vector_of<T> {
  typedef std::make_unsigned_t<T> type __attribute__((vector_size(32)));
};

typedef long long vector_bytes __attribute__((vector_size(32)));
using vector_words = vector_of<std::uint32_t>::type;
using vector_floats = vector_of<float>::type;

template <class Vector>
[[RINGLET_IN_AVX2]] inline Vector loaded(void const* from) {
  Vector v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

// Not as part of a larger memcpy: g++ does one of several registers by way of the stack.
template <class Vector>
[[RINGLET_IN_AVX2]] inline void put(void* to, Vector v) {
  std::memcpy(to, &v, sizeof v);
}

// Past the caches. `to` is aligned to the register.
[[RINGLET_IN_AVX2]] inline void stream(void* to, vector_bytes v) {
#if defined(__clang__)
  __builtin_nontemporal_store(v, static_cast<vector_bytes*>(to));
#else
  __builtin_ia32_movntdq256(static_cast<vector_bytes*>(to), v);
#endif
}

// F16C converts eight numbers in one instruction; compilers do not find it. To nearest, ties to even.
typedef short eight_float16 __attribute__((vector_size(16)));
[[RINGLET_IN_AVX2]] inline vector_floats converted(float16 const* from) {
  return __builtin_ia32_vcvtph2ps256(loaded<eight_float16>(from));
}
[[RINGLET_IN_AVX2]] inline eight_float16 converted(vector_floats v) { return __builtin_ia32_vcvtps2ph256(v, 0); }
[[RINGLET_IN_AVX2]] inline eight_float16 converted(float const* from) { return converted(loaded<vector_floats>(from)); }

// As many elements of type T as fill one register, and their sums in type A.
template <class T, class A>
struct vector_sum;

template <class T>
struct vector_sum<T, T> {
  using vector = typename vector_of<T>::type;
  vector v;

  [[RINGLET_IN_AVX2]] vector_sum(T const* a, T const* b) : v(loaded<vector>(a) + loaded<vector>(b)) {}
  [[RINGLET_IN_AVX2]] void divide(T by) { v = v / by; }
  [[RINGLET_IN_AVX2]] vector_bytes bytes() const { return (vector_bytes)v; }
};

// Two registers of floats. Those that make it say how elements become floats, and floats elements.
struct vector_sum_of_halves {
  vector_floats low, high;

  [[RINGLET_IN_AVX2]] void divide(float by) { low = low / by, high = high / by; }
};

template <>
struct vector_sum<float16, float> : vector_sum_of_halves {
  [[RINGLET_IN_AVX2]] vector_sum(float16 const* a, float16 const* b)
      : vector_sum_of_halves{converted(a) + converted(b), converted(a + 8) + converted(b + 8)} {}
  [[RINGLET_IN_AVX2]] vector_bytes bytes() const {
    return (vector_bytes)__builtin_shufflevector(converted(low), converted(high), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
                                                 12, 13, 14, 15);
  }
};

// The even elements are in `low`, the odd ones in `high`: each pair is one word, and nothing needs to be moved about.
template <>
struct vector_sum<bfloat16, float> : vector_sum_of_halves {
  [[RINGLET_IN_AVX2]] static vector_floats even(bfloat16 const* from) {
    return (vector_floats)(loaded<vector_words>(from) << 16);
  }
  [[RINGLET_IN_AVX2]] static vector_floats odd(bfloat16 const* from) {
    return (vector_floats)(loaded<vector_words>(from) & 0xffff0000U);
  }
  [[RINGLET_IN_AVX2]] vector_sum(bfloat16 const* a, bfloat16 const* b)
      : vector_sum_of_halves{even(a) + even(b), odd(a) + odd(b)} {}

  // To nearest, ties to even. No NaN becomes another number: the lower half of one is zero here, as it came from a
  // bfloat16 or is the processor's own.
  [[RINGLET_IN_AVX2]] static vector_words rounded(vector_floats v) {
    auto const bits = (vector_words)v;
    return bits + 0x7fffU + (bits >> 16 & 1U);
  }
  [[RINGLET_IN_AVX2]] vector_bytes bytes() const {
    return (vector_bytes)(rounded(low) >> 16 | (rounded(high) & 0xffff0000U));
  }
};

}  // namespace ringlet::detail

#endif
