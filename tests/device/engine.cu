// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same engine, arithmetic and queue as on the host, with a link of one's own and a warp as worker, 8 lanes a block:
// this file passes by compiling.
#include "ringlet/kernel.hpp"
#include "ringlet/operation.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/transport/slot_ring.hpp"

namespace engine_test {
using namespace ringlet;

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
  at.lane = blockIdx.x * 8 + threadIdx.x / 32;
  at.lanes = gridDim.x * 8;
  ring_operation<ring_schedule<What>, arithmetic<T, Op>, device_link, this_warp> operation(
      ring_schedule<What>{rank, size}, links[at.lane], at, pipe, arithmetic<T, Op>(op, size), nullptr, this_warp{});
  status s;
  while ((s = operation.poll()) == status::pending) {
  }
  if (this_warp{}.rank() == 0) result[at.lane] = s;
}

template __global__ void run<collective::all_reduce>(device_link*, int, int, buffers<float>, pipelining, sum, status*);
template __global__ void run<collective::all_reduce>(device_link*, int, int, buffers<bfloat16>, pipelining, average,
                                                     status*);
template __global__ void run<collective::reduce_scatter>(device_link*, int, int, buffers<std::int32_t>, pipelining,
                                                         maximum, status*);
template __global__ void run<collective::all_gather>(device_link*, int, int, buffers<float8_e4m3>, pipelining, keep,
                                                     status*);
}  // namespace engine_test
