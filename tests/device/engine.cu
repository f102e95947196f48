// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same engine, arithmetic and queue as on the host, for a block of device threads: this file passes by compiling.
#include "ringlet/operation.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/transport/slot_ring.hpp"

namespace engine_test {
using namespace ringlet;

// A block of threads as one worker. Host passes see it too, so bodies are guarded, not functions.
struct block {
#if defined(__CUDA_ARCH__)
  RINGLET_HD unsigned rank() const { return threadIdx.x; }
  RINGLET_HD unsigned size() const { return blockDim.x; }
  RINGLET_HD void sync() const { __syncthreads(); }
#else
  RINGLET_HD unsigned rank() const { return 0; }
  RINGLET_HD unsigned size() const { return 1; }
  RINGLET_HD void sync() const {}
#endif
  template <class F>
  RINGLET_HD std::invoke_result_t<F&> leader(F f) const {
#if defined(__CUDA_ARCH__)
    using result = std::invoke_result_t<F&>;
    __shared__ alignas(16) unsigned char told[64];
    static_assert(sizeof(result) <= sizeof told);
    if (threadIdx.x == 0) *reinterpret_cast<result*>(told) = f();
    __syncthreads();
    result const r = *reinterpret_cast<result*>(told);
    __syncthreads();
    return r;
#else
    return f();
#endif
  }
};

struct device_link {
  slot_ring<>::sender next_;
  slot_ring<>::receiver prev_;
  word* fault;
  RINGLET_HD slot_ring<>::sender& next() { return next_; }
  RINGLET_HD slot_ring<>::receiver& prev() { return prev_; }
  RINGLET_HD bool broken() const { return fault->acquire() != 0; }
};

template <collective What, class T, class Op>
__global__ void run(device_link* links, int rank, int size, buffers<T> at, pipelining pipe, Op op, status* result) {
  at.lane = blockIdx.x;
  at.lanes = gridDim.x;
  ring_operation<ring_schedule<What>, arithmetic<T, Op>, device_link, block> operation(
      ring_schedule<What>{rank, size}, links[blockIdx.x], at, pipe, arithmetic<T, Op>(op, size), nullptr, block{});
  status s;
  while ((s = operation.poll()) == status::pending) {
  }
  if (threadIdx.x == 0) *result = s;
}

template __global__ void run<collective::all_reduce>(device_link*, int, int, buffers<float>, pipelining, sum, status*);
template __global__ void run<collective::all_reduce>(device_link*, int, int, buffers<bfloat16>, pipelining, average,
                                                     status*);
template __global__ void run<collective::reduce_scatter>(device_link*, int, int, buffers<std::int32_t>, pipelining,
                                                         maximum, status*);
template __global__ void run<collective::all_gather>(device_link*, int, int, buffers<float8_e4m3>, pipelining, keep,
                                                     status*);
}  // namespace engine_test
