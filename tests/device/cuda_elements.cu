// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CUDA's 16-bit types are the same elements as ringlet's own: the same names, the same bits, the same sums. Needs no
// device.
#include "ringlet/cuda_elements.hpp"

#include <cstdint>
#include <cstdio>

#include "ringlet/reduction.hpp"

using namespace ringlet;

static_assert(element<__half> && element<__nv_bfloat16>);
static_assert(element_id<__half> == element_id<float16> && element_id<__nv_bfloat16> == element_id<bfloat16>);
static_assert(sizeof(__half) == sizeof(float16) && alignof(__half) == alignof(float16));
static_assert(sizeof(__nv_bfloat16) == sizeof(bfloat16) && alignof(__nv_bfloat16) == alignof(bfloat16));

template <class Theirs, class Ours>
int differences() {
  int wrong = 0;
  arithmetic<Theirs, sum> const theirs(sum{}, 2);
  arithmetic<Ours, sum> const ours(sum{}, 2);
  static_assert(std::is_same_v<typename arithmetic<Theirs, sum>::accumulator, float>);
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    auto const a = Ours::from_bits(static_cast<std::uint16_t>(bits));
    auto const b = Ours::from_bits(static_cast<std::uint16_t>(bits * 40503 + 1));
    if (float(a) != float(a) || float(b) != float(b)) continue;  // which NaN it is may differ
    auto const x = __builtin_bit_cast(Theirs, a), y = __builtin_bit_cast(Theirs, b);
    auto const s = static_cast<Ours>(ours.add(float(a), float(b)));
    if (float(s) != float(s)) continue;
    wrong += __builtin_bit_cast(std::uint16_t, static_cast<Theirs>(theirs.add(float(x), float(y)))) != s.bits();
  }
  return wrong;
}

int main() {
  int const wrong = differences<__half, float16>() + differences<__nv_bfloat16, bfloat16>();
  std::printf("%d sums differ\n", wrong);
  return wrong != 0;
}
