// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A training step of 16 hosts, before there are any: the program that they will run, on a virtual clock. Which size of
// bucket hides most of the exchange behind the backward pass? Small ones begin early, large ones wait less often.
#include <cstddef>
#include <cstdio>
#include <vector>

#include "ringlet/bucketer.hpp"
#include "ringlet/simulate_program.hpp"

constexpr std::size_t layers = 24, parameters = 1 << 15;  // of each layer
constexpr double layer = 200e-6, piece = 10e-6;           // seconds that its backward pass takes; between two polls

// Milliseconds of a step, with buckets of so many bytes.
static double step(std::size_t bytes) {
  ringlet::simulated world({.ranks = 16,
                            .slots = 8,
                            .slot_bytes = 1 << 16,
                            .wires = {{.alpha = 20e-6, .beta = 1 / 1.25e9}},  // 10 Gbit/s
                            .members = {{.gamma = 1 / 20e9}}});
  auto const run = ringlet::simulate_program(world, [&](auto& comm) {
    std::vector<std::size_t> const counts(layers, parameters);
    auto gradients = ringlet::make_bucketer<float>(comm, counts, ringlet::sum{}, {.first = bytes, .others = bytes});
    for (std::size_t i = 0; i < layers; ++i) {
      for (double done = 0; done < layer; done += piece) {
        comm.transport().compute(piece);
        gradients.poll();
      }
      gradients.ready(i);
    }
    gradients.wait();
  });
  return run.seconds() * 1e3;
}

int main() {
  std::printf("backward pass alone %.1f ms; with the exchange of %.1f MiB of gradients:\n", layers * layer * 1e3,
              static_cast<double>(layers * parameters * sizeof(float)) / (1 << 20));
  for (std::size_t in_bucket : {1, 2, 4, 6, 12, 24})
    std::printf("%2zu layers a bucket: %6.2f ms\n", in_bucket, step(in_bucket * parameters * sizeof(float)));
}
