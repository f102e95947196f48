// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model that no rank holds whole (Rajbhandari et al., "ZeRO", 2019). A layer's weights are gathered while the layer
// before it computes, its gradient is reduced and scattered while the next one does, and the optimizer's state, here a
// momentum, is never anywhere but in chunks. Ranks learn from different data, and the weights become those of one
// process.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

#include "ringlet/ringlet.hpp"
#include "ringlet/sharded.hpp"

constexpr int ranks = 4, steps = 5;
using values = std::vector<float>;
std::vector<std::size_t> const counts{30'000, 50'000, 20'001, 50'000, 10};  // weights of each layer

// x goes through layer after layer: y = x + w * a, element by element, for an input a of this rank's.
float initial(std::size_t layer, std::size_t e) { return 1.0F / static_cast<float>(1 + layer + e % 100); }
float input(int rank, std::size_t e) { return static_cast<float>(1 + (static_cast<std::size_t>(rank) + e) % 3) / 8; }
float forward(std::span<float const> w, float x, int rank) {
  for (std::size_t e = 0; e < w.size(); ++e) x += w[e] * input(rank, e) / 1'000;
  return x;
}
// The gradient of x * x / 2, on average over ranks.
void backward(std::span<float> gradient, float x, int rank) {
  for (std::size_t e = 0; e < gradient.size(); ++e) gradient[e] += x * input(rank, e) / 1'000 / ranks;
}
void learn(std::span<float> weights, std::span<float const> gradients, std::span<float> momentum) {
  for (std::size_t e = 0; e < weights.size(); ++e)
    momentum[e] = 0.9F * momentum[e] + gradients[e], weights[e] -= momentum[e];
}

// All layers' weights, side by side, as one process learns them.
values alone() {
  values weights, momentum(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  for (std::size_t i = 0; i < counts.size(); ++i)
    for (std::size_t e = 0; e < counts[i]; ++e) weights.push_back(initial(i, e));
  for (int step = 0; step < steps; ++step) {
    values gradients(weights.size());
    for (int rank = 0; rank < ranks; ++rank) {
      float x = 0;
      std::size_t at = 0;
      for (std::size_t n : counts) x = forward({&weights[at], n}, x, rank), at += n;
      for (std::size_t n : counts) at -= n;
      for (std::size_t n : counts) backward({&gradients[at], n}, x, rank), at += n;
    }
    learn(weights, gradients, momentum);
  }
  return weights;
}

int main() {
  return ringlet::launch(ranks, [](auto who) {
    auto comm = ringlet::connect<ringlet::shared_memory>(who);
    auto model = ringlet::make_sharded<float>(comm, counts);
    std::size_t const layers = model.layers();
    for (std::size_t i = 0; i < layers; ++i) {
      std::size_t e = model.chunks(i).offset(static_cast<std::size_t>(who.rank));
      for (float& w : model.chunk(i)) w = initial(i, e++);
    }
    values momentum(model.parameters().size());

    for (int step = 0; step < steps; ++step) {
      float x = 0;
      model.gather(0);
      for (std::size_t i = 0; i < layers; ++i) {
        if (i + 1 < layers) model.gather(i + 1);
        x = forward(model.weights(i), x, who.rank);
        model.poll();  // a real layer does so several times
      }
      for (std::size_t i = layers; i-- > 0; model.scatter(i)) backward(model.gradient(i), x, who.rank);
      model.wait();
      learn(model.parameters(), model.gradients(), momentum);
      for (float& g : model.gradients()) g = 0;
    }

    values const expected = alone();
    float worst = 0;
    std::size_t at = 0, own = 0;
    for (std::size_t i = 0; i < layers; at += counts[i++]) {
      std::size_t e = at + model.chunks(i).offset(static_cast<std::size_t>(who.rank));
      for (float w : model.chunk(i)) worst = std::max(worst, std::abs(w - expected[e++])), ++own;
    }
    bool const shared_out = own <= expected.size() / ranks + layers && momentum.size() == own &&
                            model.bytes() <= (2 * (own + layers) + 4 * 50'000) * sizeof(float);
    if (who.rank == 0)
      std::printf("of %zu weights a rank keeps %zu, and as much momentum; it sends %zu bytes a step\n", expected.size(),
                  own, static_cast<std::size_t>(comm.counters().sent) / steps);
    return worst < 1e-5F && shared_out ? 0 : 1;
  });
}
