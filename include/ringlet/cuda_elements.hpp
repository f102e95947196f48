// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ringlet/element.hpp"

// CUDA's own 16-bit types as elements. They are the same on the wire as ringlet's, so ranks may mix them. Devices
// convert them by an instruction, where ringlet's take a dozen; which NaN a result is may differ.

namespace ringlet {

template <>
struct computes_in<__half> {
  using type = float;
};
template <>
struct computes_in<__nv_bfloat16> {
  using type = float;
};
template <>
inline constexpr char const* element_label<__half> = element_name<float16>;
template <>
inline constexpr char const* element_label<__nv_bfloat16> = element_name<bfloat16>;

}  // namespace ringlet
