// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One layer split across ranks (Shoeybi et al., "Megatron-LM", 2019). A weight cut by columns needs the whole input,
// and its outputs stand side by side: no exchange. One cut by rows takes those as they are, and gives partial sums of
// full width: an all-reduce. So the chain of the two costs one exchange forward and one back: 160 a step for 80 layers,
// and nothing can hide them, since the next layer waits for each. Needs Eigen.
#include <Eigen/Dense>
#include <cstdio>
#include <vector>

#include "ringlet/ringlet.hpp"

using matrix = Eigen::MatrixXf;
constexpr int ranks = 4, layers = 80, tokens = 96, width = 32, inner = 4 * width;

// y = x + max(0, x * first) * second
struct layer {
  matrix first, second;  // width x inner and inner x width, or a rank's part of them
  matrix first_gradient, second_gradient;
  matrix input, hidden;

  // `exchange` adds up a matrix over all ranks.
  template <class Exchange>
  matrix forward(matrix const& x, Exchange exchange) {
    input = x;
    hidden = (x * first).cwiseMax(0.0F);
    matrix partial = hidden * second;
    exchange(partial);
    return x + partial;
  }
  template <class Exchange>
  matrix backward(matrix const& behind, Exchange exchange) {
    second_gradient = hidden.transpose() * behind;
    matrix const through = (hidden.array() > 0).select(behind * second.transpose(), 0.0F);
    first_gradient = input.transpose() * through;
    matrix partial = through * first.transpose();
    exchange(partial);
    return behind + partial;
  }
};

template <class Exchange>
void step(std::vector<layer>& model, matrix x, Exchange exchange) {
  for (layer& l : model) x = l.forward(x, exchange);
  for (auto l = model.rbegin(); l != model.rend(); ++l) x = l->backward(x, exchange);
}

bool alike(matrix const& a, matrix const& b) { return (a - b).norm() <= 1e-4F * b.norm(); }

int main() {
  return ringlet::launch(ranks, [](auto who) {
    auto comm = ringlet::connect<ringlet::shared_memory>(who);
    auto const part = comm.chunks(inner);
    auto const me = static_cast<std::size_t>(comm.rank());
    auto const begin = static_cast<int>(part.offset(me)), mine = static_cast<int>(part.length(me));
    std::srand(1);  // the same on all ranks
    std::vector<layer> whole(layers), split(layers);
    for (int l = 0; l < layers; ++l) {
      auto const i = static_cast<std::size_t>(l);
      whole[i].first = matrix::Random(width, inner) * 0.1F, whole[i].second = matrix::Random(inner, width) * 0.1F;
      split[i].first = whole[i].first.middleCols(begin, mine),
      split[i].second = whole[i].second.middleRows(begin, mine);
    }
    matrix const x = matrix::Random(tokens, width);

    int exchanges = 0;
    step(split, x, [&](matrix& partial) { ++exchanges, ringlet::all_reduce(comm, partial); });
    step(whole, x, [](matrix&) {});  // by one process alone

    bool good = exchanges == 160;
    for (std::size_t i = 0; i < layers; ++i)
      good = good && alike(split[i].first_gradient, whole[i].first_gradient.middleCols(begin, mine)) &&
             alike(split[i].second_gradient, whole[i].second_gradient.middleRows(begin, mine));
    // Each exchange sends 2(n-1)/n of the activations, which are too large for one shot: the traffic goes with the
    // tokens, not with the parameters.
    auto const bytes = static_cast<std::size_t>(tokens * width) * sizeof(float);
    good = good && comm.counters().sent == 160 * bytes * 2 * (ranks - 1) / ranks;
    if (comm.rank() == 0 && good)
      std::printf("%d layers, %d exchanges a step, %zu bytes sent by each rank, gradients as of one process\n", layers,
                  exchanges, static_cast<std::size_t>(comm.counters().sent));
    return good ? 0 : 1;
  });
}
