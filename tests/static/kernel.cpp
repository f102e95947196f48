// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels go by packs, in loops of their own. Those for any other worker refuse theirs: here, to compile is to pass.
#include "ringlet/kernel.hpp"

#include <complex>
#include <cstddef>
#include <cstdint>

#include "ringlet/combine.hpp"
#include "ringlet/element.hpp"
#include "ringlet/emulated_kernel.hpp"
#include "ringlet/reduction.hpp"

namespace {
using namespace ringlet;

// --- their loops are found, those that add and those that copy ---

template <class Op>
void combine_as_all_workers(detail::thread_block& threads, detail::fibres::block& fibres, float* p, Op op) {
  auto const by = [&](auto worker) { combine(worker, p, p, p, p, 1, arithmetic<float, Op>(op, 2), true, true, true); };
  by(this_block{}), by(this_warp{}), by(detail::any_kernel_worker{});
  by(detail::block_thread(threads, 0)), by(detail::block_fibre(fibres, 0));
}
template void combine_as_all_workers(detail::thread_block&, detail::fibres::block&, float*, sum);
template void combine_as_all_workers(detail::thread_block&, detail::fibres::block&, float*, keep);

// --- as many elements go together as fit into 16 bytes, and of bytes 8 ---

using detail::pack_size;
static_assert(pack_size<float> == 4 && pack_size<double> == 2 && pack_size<std::int16_t> == 8);
static_assert(pack_size<bfloat16> == 8 && pack_size<std::complex<float>> == 2 && pack_size<std::complex<double>> == 1);
static_assert(pack_size<std::int8_t> == 8 && pack_size<float8_e4m3> == 8);
static_assert(pack_size<float, bfloat16> == 4 && pack_size<bfloat16, float> == 4, "as fit of the wider type");
struct of_three {
  float at[3];
};
static_assert(pack_size<of_three> == 0, "sizes that are no power of 2 go one at a time");

}  // namespace
