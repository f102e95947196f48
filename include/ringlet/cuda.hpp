// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "ringlet/error.hpp"
#include "ringlet/kernel.hpp"

// The only kernel and the only launch of the library. For nvcc.

namespace ringlet {

/// The most threads of a block.
inline constexpr unsigned most_block_threads = 512;

namespace detail {

template <kernel_body Body>
__global__ void __launch_bounds__(most_block_threads, 1) run_body(__grid_constant__ Body const body) {
  body(this_block{}, blockIdx.x, gridDim.x);
}

}  // namespace detail

/// Throws an error with CUDA's own words where a call of it has failed.
/// @param what the call
/// @throws error(errc::out_of_memory, unsupported)
inline void check_cuda(cudaError_t result, char const* what) {
  if (result == cudaSuccess) return;
  (void)cudaGetLastError();  // so that the next call does not find it again
  throw error(result == cudaErrorMemoryAllocation ? errc::out_of_memory : errc::unsupported,
              std::string(what) + ": " + cudaGetErrorString(result));
}

/// Loads a kernel on the current device. To be called for every body before any of them waits for others: left to
/// itself, CUDA loads a kernel at its first launch, which does not return while another one is running.
template <kernel_body Body>
void prepare_kernel() {
  cudaFuncAttributes attributes;
  check_cuda(cudaFuncGetAttributes(&attributes, detail::run_body<Body>), "cudaFuncGetAttributes");
}

/// How many blocks of so many threads the current device can run at the same time.
template <kernel_body Body>
unsigned most_blocks(unsigned threads) {
  int device = 0, multiprocessors = 0, each = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
             "cudaDeviceGetAttribute");
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, detail::run_body<Body>, static_cast<int>(threads), 0),
             "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return static_cast<unsigned>(multiprocessors * each);
}

/// Starts a body on a stream. All its blocks run at the same time, or this throws: they wait for each other.
/// @param blocks how many, at most `most_blocks<Body>(threads)`
/// @param threads of each block, a multiple of 32, at most `most_block_threads`
/// @throws error(errc::unsupported) when they cannot
template <kernel_body Body>
void launch_kernel(cudaStream_t stream, unsigned blocks, unsigned threads, Body const& body) {
  cudaLaunchAttribute together{};
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  cudaLaunchConfig_t how{};
  how.gridDim = dim3(blocks);
  how.blockDim = dim3(threads);
  how.stream = stream;
  how.attrs = &together;
  how.numAttrs = 1;
  check_cuda(cudaLaunchKernelEx(&how, detail::run_body<Body>, body), "cudaLaunchKernelEx");
}

}  // namespace ringlet
