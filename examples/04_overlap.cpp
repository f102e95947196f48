// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Overlap: gradients are exchanged, bucket by bucket, while the backward pass still computes. A bucketer owns their
// memory and starts a bucket when its gradients are ready. It has no thread: it gets on when it is polled, here between
// pieces of work. (Where there are processors to spare, progress_thread.hpp has a thread that polls.)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <span>
#include <vector>

#include "ringlet/bucketer.hpp"
#include "ringlet/ringlet.hpp"

using clock_type = std::chrono::steady_clock;

constexpr std::size_t layers = 6, pieces = 8, parameters = 1 << 17;  // pieces and parameters of each layer

// Writes the gradient of one layer, in pieces. Ranks need different time for a layer, as they do in life.
template <class Between>
void backward(std::span<float> gradient, std::size_t layer, int rank, Between between) {
  auto const value = layer + static_cast<std::size_t>(rank);
  auto const time = std::chrono::microseconds(value % 2 == 0 ? 150 : 50);
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    auto const end = clock_type::now() + time;
    while (clock_type::now() < end) continue;  // computes
    std::ranges::fill(gradient.subspan(piece * (parameters / pieces), parameters / pieces), value);
    between();
  }
}

// What a step of training takes, in milliseconds: the best of a few.
template <class Comm, class Step>
double timed(Comm& comm, Step step) {
  double best = 1e9;
  for (int i = 0; i < 8; ++i) {
    ringlet::barrier(comm);
    auto const begin = clock_type::now();
    step();
    best = std::min(best, std::chrono::duration<double, std::milli>(clock_type::now() - begin).count());
  }
  return best;
}

int main() {
  return ringlet::launch(2, [](auto who) {
    auto comm = ringlet::connect<ringlet::shared_memory>(who);
    // Gradients in the order in which they become ready: the last layer's first. Nothing is copied into buckets:
    // gradient(i) is a part of one.
    std::vector<std::size_t> const counts(layers, parameters);
    auto gradients = ringlet::make_bucketer<float>(comm, counts, ringlet::sum{}, {.first = 1 << 19, .others = 1 << 20});

    double const alone = timed(comm, [&] {
      for (std::size_t i = 0; i < layers; ++i) backward(gradients.gradient(i), i, comm.rank(), [] {});
    });
    double const after_each = timed(comm, [&] {
      for (std::size_t i = 0; i < layers; ++i) {
        backward(gradients.gradient(i), i, comm.rank(), [] {});
        ringlet::all_reduce(comm, gradients.gradient(i));  // everyone waits for the slowest, layer after layer
      }
    });
    double const overlapped = timed(comm, [&] {
      for (std::size_t i = 0; i < layers; ++i) {
        backward(gradients.gradient(i), i, comm.rank(), [&] { gradients.poll(); });
        gradients.ready(i);
      }
      gradients.wait();  // before the optimizer's step
    });

    bool right = true;
    for (std::size_t i = 0; i < layers; ++i)
      right = right && std::ranges::all_of(gradients.gradient(i), [&](float x) { return x == 2 * i + 1; });
    if (comm.rank() == 0)
      std::printf(
          "backward pass: %.1f ms; exchange adds %.1f ms when each layer waits for it, %.1f ms when overlapped\n",
          alone, after_each - alone, overlapped - alone);
    return right ? 0 : 1;
  });
}
