// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small transformer learns to guess the next byte of a text, on 16 ranks that are divided along four axes at once,
// each over the link whose speed it can live with. Its losses are those of one process, step by step. Needs Eigen.
//
//     16_transformer [TEXT [PROVIDER]]    of libfabric: tcp, ...; or shared_memory
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "parallel.hpp"
#if __has_include(<rdma/fabric.h>)
#include "ringlet/transport/fabric.hpp"
#define HAS_FABRIC 1
#endif

constexpr int steps = 20, batch = 16;
constexpr shape model{.blocks = 4, .width = 32, .heads = 4, .inner = 128, .length = 32};
constexpr ringlet::mesh alone{{{"data", 1}, {"pipeline", 1}, {"state", 1}, {"tensor", 1}}};
constexpr ringlet::mesh divided{{{"data", 2}, {"pipeline", 2}, {"state", 2}, {"tensor", 2}}};
static_assert(ringlet::proved_pipeline<ringlet::one_forward_one_backward>(divided.degree("pipeline"),
                                                                          batch / divided.degree("data", "state")));

// Whether gradients are difference quotients, in a model so small that all of it can be tried.
bool gradients_are_right() {
  shape const s{.blocks = 1, .width = 4, .heads = 2, .inner = 6, .length = 5};
  std::vector<unsigned char> const text{7, 1, 7, 3, 2, 9};
  std::vector<std::vector<real>> weights, gradient;
  for (int i = 0; i < layers_of(s); ++i) {
    auto const l = make_layer(s, i);
    weights.emplace_back(l->count()), gradient.emplace_back(l->count());
    l->initialize(weights.back().data(), i);
  }
  auto const loss = [&](bool back) {
    passage p{tokens(text).first(5), tokens(text).last(5), 0.2, [](matrix&) {}};
    std::vector<std::unique_ptr<layer>> layers;
    matrix x;
    for (std::size_t i = 0; i < weights.size(); ++i)
      layers.push_back(make_layer(s, static_cast<int>(i))), x = layers[i]->forward(weights[i].data(), x, p);
    for (std::size_t i = back ? weights.size() : 0; i-- > 0;)
      x = layers[i]->backward(weights[i].data(), gradient[i].data(), x, p);
    return p.loss;
  };
  loss(true);
  bool right = true;
  for (std::size_t i = 0; i < weights.size(); ++i)
    for (std::size_t e = 0; e < weights[i].size(); ++e) {
      real const w = weights[i][e], small = 1e-5;
      weights[i][e] = w + small;
      real const above = loss(false);
      weights[i][e] = w - small;
      right = right && std::abs((above - loss(false)) / (2 * small) - gradient[i][e]) < 1e-8;
      weights[i][e] = w;
    }
  return right;
}

// Whether an axis has exchanged what is derived: in a step every passage takes 2 sums in each attention and MLP, 2
// gathers and a scatter of each layer, and a message to the next stage or the one before; and there is one gradient.
bool as_derived(exchanged const& a) {
  constexpr unsigned stages = divided.degree("pipeline"), layers = layers_of(model) / stages,
                     passages = batch / divided.degree("data", "state"), blocks = model.blocks / stages;
  unsigned const messages = a.axis == "tensor"  ? passages * blocks * 2 * 2
                            : a.axis == "state" ? passages * layers * 3
                            : a.axis == "data"  ? 1
                                                : passages;
  // Where a buffer does not divide by the ranks, some send an element more.
  auto const off = a.passes * static_cast<double>(a.bytes) - static_cast<double>(a.counted.sent);
  return a.messages == messages * steps && std::abs(off) <= static_cast<double>(a.messages * sizeof(real));
}

void print_table(std::vector<exchanged> const& axes, std::string const& far, double compute) {
  std::printf(
      "\naxis      degree  over           messages  MB each  exchange         MB sent  pieces  link needed\n"
      "                                  a step                            a step  a step  MB/s\n");
  for (exchanged const& a : axes) {
    bool const near = a.axis == "tensor" || a.axis == "state";
    auto const messages = static_cast<double>(a.messages), sent = static_cast<double>(a.counted.sent) / steps / 1e6;
    std::printf("%-9s %6d  %-14s %8.0f  %7.4f  %-15s  %7.3f  %6.0f  %11.1f\n", a.axis.c_str(), a.degree,
                near ? "shared memory" : far.c_str(), messages / steps, static_cast<double>(a.bytes) / messages / 1e6,
                a.how.c_str(), sent, static_cast<double>(a.counted.messages) / steps, sent / (compute / 10));
  }
  std::printf("the link needed takes a tenth of the time that a rank computes: %.2f ms a step\n", compute * 1e3);
}

// Trains on all ranks. 0 when the losses are the expected ones.
template <ringlet::transport Far>
int train_divided(tokens text, std::vector<real> const& expected, double compute, std::string const& far,
                  ringlet::connect_options<Far> const& options) {
  return ringlet::launch(divided.size(), [&](auto who) {
    trainer<ringlet::shared_memory, Far> here(who, divided, model, text, batch, options);
    bool good = true;
    for (int i = 0; i < steps; ++i) {
      real const loss = here.step(i), one = expected[static_cast<std::size_t>(i)];
      real const difference = std::abs(loss - one) / one;
      good = good && difference <= 1e-4;
      if (who.rank != 0) continue;
      std::printf("step %2d of %d: loss %.6f, relative difference %.0e\n", i + 1, steps, loss, difference);
      std::fflush(stdout);
    }
    auto const axes = here.report();
    good = good && std::ranges::all_of(axes, as_derived);
    // Each weight that two ranks work with is kept by one of them, with its gradient and two moments.
    std::size_t const kept = here.kept(), used = here.used();
    good = good && kept <= used / 2 + layers_of(model) && here.optimizer_bytes() == 2 * kept * sizeof(real);
    if (who.rank == 0) {
      print_table(axes, far, compute);
      std::printf("rank 0 works with %zu weights and keeps %zu, their gradients and optimizer's state\n", used, kept);
      std::puts(good ? "all as it should be" : "NOT as it should be: losses, messages or memory");
    }
    return good ? 0 : 1;
  });
}

int main(int argc, char** argv) {
  char const* const path = argc > 1 ? argv[1] : "/usr/share/common-licenses/GPL-3";
  std::string const provider = argc > 2 ? argv[2] : "tcp";
  std::ifstream file(path, std::ios::binary);
  std::vector<unsigned char> const text{std::istreambuf_iterator<char>(file), {}};
  if (text.size() < 1'000) {
    std::fprintf(stderr, "%s is no text of a thousand bytes at least: name one that is\n", path);
    return 77;  // skipped, as a test
  }
  if (!gradients_are_right()) {
    std::fprintf(stderr, "gradients are no difference quotients\n");
    return 1;
  }

  std::vector<real> losses;
  auto const begin = std::chrono::steady_clock::now();
  auto const one = [&](auto who) {
    trainer<ringlet::shared_memory, ringlet::shared_memory> all(who, alone, model, text, batch, {});
    while (losses.size() < steps) losses.push_back(all.step(static_cast<int>(losses.size())));
  };
  if (ringlet::launch(1, one, {.as = ringlet::ranks_as::threads}) != 0) return 1;
  double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%s: %zu bytes, %d a step\none process: loss %.6f, after %d steps %.6f, in %.1f s\n%s: %d ranks\n", path,
              text.size(), batch * model.length, losses.front(), steps, losses.back(), seconds,
              divided.describe().c_str(), divided.size());
  std::fflush(stdout);

  double const compute = seconds / steps / divided.size();
#ifdef HAS_FABRIC
  if (provider != "shared_memory") {
    ringlet::connect_options<ringlet::fabric> options;
    options.transport.provider = provider, options.transport.interface = "=lo";
    return train_divided(text, losses, compute, "fabric: " + provider, options);
  }
#else
  std::printf("built without libfabric, so all axes go over shared memory\n");
#endif
  return train_divided<ringlet::shared_memory>(text, losses, compute, "shared memory", {});
}
