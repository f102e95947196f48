// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Overlap: gradients are exchanged, bucket by bucket, while the backward pass still computes. An operation has no
// thread of its own: it advances when it is polled, here between pieces of work.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "ringlet/ringlet.hpp"

using clock_type = std::chrono::steady_clock;
using communicator = ringlet::communicator<ringlet::shared_memory>;
using bucket = ringlet::allocation<float, ringlet::shared_memory>;
using exchange = decltype(ringlet::async_all_reduce(std::declval<communicator&>(), std::declval<bucket&>()));

constexpr int layers = 6, pieces = 8, parameters = 1 << 17;  // pieces and parameters of each layer

// The gradient of one layer, in pieces. Ranks need different time for a layer, as they do in life.
template <class Between>
void backward(bucket& gradient, int layer, int rank, Between between) {
  auto const time = std::chrono::microseconds((layer + rank) % 2 == 0 ? 150 : 50);
  for (int piece = 0; piece < pieces; ++piece) {
    auto const end = clock_type::now() + time;
    while (clock_type::now() < end) continue;  // computes
    std::fill_n(gradient.begin() + piece * (parameters / pieces), parameters / pieces, layer + rank);
    between();
  }
}

// What a step of training takes, in milliseconds: the best of a few.
template <class Step>
double timed(communicator& comm, Step step) {
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
    communicator comm = ringlet::connect<ringlet::shared_memory>(who);
    std::vector<bucket> gradients;  // memory that all ranks can reach: exchanged without copies
    for (int layer = 0; layer < layers; ++layer) gradients.push_back(comm.allocate<float>(parameters));

    double const alone = timed(comm, [&] {
      for (int layer = layers; layer-- > 0;) backward(gradients[layer], layer, comm.rank(), [] {});
    });
    double const after_each = timed(comm, [&] {
      for (int layer = layers; layer-- > 0;) {
        backward(gradients[layer], layer, comm.rank(), [] {});
        ringlet::all_reduce(comm, gradients[layer]);  // everyone waits for the slowest, layer after layer
      }
    });
    double const overlapped = timed(comm, [&] {
      std::vector<std::unique_ptr<exchange>> running;  // an operation stays where it was made
      for (int layer = layers; layer-- > 0;) {
        backward(gradients[layer], layer, comm.rank(), [&] {
          if (!running.empty()) running.back()->poll();  // drives those before it, too
        });
        running.emplace_back(new exchange(ringlet::async_all_reduce(comm, gradients[layer])));
      }
      for (auto& operation : running) operation->wait();  // before the optimizer's step
    });

    bool right = true;
    for (int layer = 0; layer < layers; ++layer)
      right = right && std::count(gradients[layer].begin(), gradients[layer].end(), 2 * layer + 1) == parameters;
    if (comm.rank() == 0)
      std::printf(
          "backward pass: %.1f ms; exchange adds %.1f ms when each layer waits for it, %.1f ms when overlapped\n",
          alone, after_each - alone, overlapped - alone);
    return right ? 0 : 1;
  });
}
