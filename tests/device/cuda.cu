// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The launches compile, and start without a driver: where there is no device, the program says so and ends with 77.
#include "ringlet/cuda.hpp"

#include <cstdio>

#include "ringlet/cuda_kernels.hpp"

int main() {
  using namespace ringlet;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("skipped: no CUDA device");
    return 77;
  }
  prepare_kernel<ring_kernel<collective::all_reduce, float, sum>>();
  return most_blocks<ring_kernel<collective::all_reduce, float, sum>>(most_block_threads) == 0;
}
