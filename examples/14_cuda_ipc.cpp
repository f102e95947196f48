// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks with GPUs of one machine sum their gradients in a stream: the call returns at once, and what comes after it in
// the stream finds the sums. `nvcc -x cu -std=c++20 14_cuda_ipc.cpp` makes it use CUDA, and skip (77) where there is no
// GPU; a plain compiler makes the host play the devices.
#include <cstdio>
#include <vector>

#include "ringlet/on_stream.hpp"
#include "ringlet/ringlet.hpp"
#if defined(__CUDACC__)
#include "ringlet/transport/cuda_runtime.hpp"
using device = ringlet::cuda_runtime;
#else
#include "ringlet/transport/emulated_runtime.hpp"
using device = ringlet::emulated_runtime;
#endif

// What a device runs: here, the update of the weights that would follow in a training step.
struct update {
  float *weights, *gradients;
  std::size_t count;
  float rate;
  template <ringlet::kernel_worker W>
  RINGLET_HD void operator()(W const& worker, unsigned block, unsigned blocks) const {
    for (std::size_t i = block * worker.size() + worker.rank(); i < count; i += blocks * worker.size())
      weights[i] -= rate * gradients[i];
  }
};

int main() {
  // Asked in a process of its own: one that has used CUDA can fork no ranks.
  if (ringlet::launch(1, [](auto) { return device::devices() == 0 ? 1 : 0; }) != 0) {
    std::puts("skipped: no GPU here");
    return 77;
  }
  return ringlet::launch(2, [](auto who) {
    device::use(who.rank % device::devices());  // the rank's device is the one that is current when it connects
    auto comm = ringlet::connect<ringlet::cuda_ipc<device>>(who);
    auto const stream = device::make_stream();

    // From the communicator: then all devices reach it, if they reach each other, and no copies are needed.
    std::size_t const count = 100000;
    auto const gradients = comm.template allocate<float>(count), weights = comm.template allocate<float>(count);
    std::vector<float> const mine(count, 1 + who.rank);
    device::copy(stream, gradients.data(), mine.data(), count * sizeof(float));

    ringlet::all_reduce(ringlet::on(stream), comm, gradients);
    device::launch(stream, 8, 128, update{weights.data(), gradients.data(), count, 0.5F});
    ringlet::wait(ringlet::on(stream), comm);  // sees to it that a lost peer does not leave the stream waiting

    std::vector<float> result(count);
    device::copy(stream, result.data(), weights.data(), count * sizeof(float));
    device::synchronise(stream);
    device::destroy(stream);
    std::string const& host = comm.transport().why_through_host();
    std::printf("rank %d on %s device: weight %g, %s\n", who.rank, device::name, result[count - 1],
                host.empty() ? "devices reach each other" : host.c_str());
    return result[count - 1] == -1.5F ? 0 : 1;
  });
}
