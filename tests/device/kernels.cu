// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of all_reduce: of some types, or with -DALL of ten types and four operators. ptx_lint.py looks at what
// comes out.
#include "ringlet/cuda.hpp"
#include "ringlet/cuda_elements.hpp"
#include "ringlet/cuda_kernels.hpp"
#include "ringlet/direct_kernel.hpp"
#include "ringlet/line_kernel.hpp"
#include "ringlet/stream_steps.hpp"

using namespace ringlet;

template <class T, class Op>
void prepare() {
  prepare_kernel<line_kernel<collective::all_reduce, T, Op>>();
  prepare_kernel<direct_kernel<collective::all_reduce, T, Op>>();
  prepare_kernel<ring_kernel<collective::all_reduce, T, Op>>();
}
template <class T>
void prepare_all() {
  prepare<T, sum>();
  prepare<T, product>();
  prepare<T, minimum>();
  prepare<T, maximum>();
}
template <class T>
void prepare_all_in_float() {
  prepare<T, decltype(accumulate_in<float>(sum{}))>();
  prepare<T, decltype(accumulate_in<float>(product{}))>();
  prepare<T, decltype(accumulate_in<float>(minimum{}))>();
  prepare<T, decltype(accumulate_in<float>(maximum{}))>();
}

void prepare_them() {
#if defined(ALL)
  prepare_all<float>();
  prepare_all<double>();
  prepare_all<std::int32_t>();
  prepare_all<std::int64_t>();
  prepare_all<__half>();
  prepare_all<__nv_bfloat16>();
  prepare_all<float16>();
  prepare_all<bfloat16>();
  prepare_all_in_float<float8_e4m3>();
  prepare_all_in_float<float8_e5m2>();
#else
  prepare<float, sum>();
  prepare<std::int64_t, minimum>();
  prepare<__nv_bfloat16, sum>();
  prepare<float16, average>();
  prepare<float8_e4m3, decltype(accumulate_in<float>(sum{}))>();
  prepare_kernel<direct_or_ring_kernel<collective::all_reduce, float, sum>>();
  prepare_kernel<step_kernel<arithmetic<float, sum>>>();
  prepare_kernel<ring_kernel<collective::reduce_scatter, double, average>>();
  prepare_kernel<ring_kernel<collective::all_gather, std::int32_t, keep>>();
#endif
}
