// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/sharded.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "../../examples/07_own_transport.hpp"
#include "../over_both.hpp"
#include "ringlet/all_reduce.hpp"

using namespace tests;
using ringlet::make_sharded;
using counts = std::vector<std::size_t>;

namespace {

counts const layers{700, 2, 0, 5'001, 1, 40'000};  // also fewer than there are ranks

float weight(std::size_t i, std::size_t e) { return static_cast<float>(1'000 * i + e % 997); }
float slope(int rank, int pass, std::size_t i, std::size_t e) {
  return static_cast<float>((static_cast<std::size_t>(rank + 1) << pass) + 3 * i + e % 7);
}
std::vector<float> layer(std::size_t i) {
  std::vector<float> w(layers[i]);
  for (std::size_t e = 0; e < w.size(); ++e) w[e] = weight(i, e);
  return w;
}
bool is_layer(std::span<float const> w, std::size_t i) {
  auto const expected = layer(i);
  return std::equal(w.begin(), w.end(), expected.begin(), expected.end());
}

// Forward and backward through all layers, twice: gradients add up.
template <class Comm>
void train(Comm& comm) {
  auto model = make_sharded<float>(comm, layers);
  int const n = comm.size();
  for (std::size_t i = 0; i < layers.size(); ++i) model.assign(i, layer(i));
  for (int pass = 0; pass < 2; ++pass) {
    model.gather(0);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (i + 1 < layers.size()) model.gather(i + 1);
      expect(is_layer(model.weights(i), i), "the weights of layer " + std::to_string(i));
      if (i + 1 < layers.size()) expect(is_layer(model.weights(i + 1), i + 1), "the next ones");
      expect(is_layer(model.weights(i), i), "both stay");
    }
    for (std::size_t i = layers.size(); i-- > 0; model.scatter(i)) {
      auto const g = model.gradient(i);
      for (std::size_t e = 0; e < g.size(); ++e) g[e] += slope(comm.rank(), pass, i, e);
    }
  }
  model.wait();
  std::size_t at = 0;
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (std::size_t e = model.chunks(i).offset(static_cast<std::size_t>(comm.rank())), end = e + model.chunk(i).size();
         e < end; ++e) {
      float expected = 0;
      for (int pass = 0; pass < 2; ++pass)
        for (int r = 0; r < n; ++r) expected += slope(r, pass, i, e);
      expect(model.gradients()[at++] == expected, "a gradient of layer " + std::to_string(i));
    }
  expect(at == model.gradients().size() && at == model.parameters().size(), "each has its chunks and no more");
}

}  // namespace

OVER_BOTH("weights are gathered for use, and gradients are summed over ranks and passes, chunk by chunk") {
  CHECK(on<Ranks>(3, [](auto& comm) { train(comm); }) == 0);
  CHECK(on<Ranks>(1, [](auto& comm) { train(comm); }) == 0);
}

TEST_CASE("and so over a transport that has links, and no memory of its own") {
  CHECK(on<tests::processes<sockets>>(3, [](auto& comm) { train(comm); }) == 0);
}

OVER_BOTH("no rank holds the whole: two n-ths of it, and four layers") {
  counts const deep(40, 3'001);
  CHECK(on<Ranks>(4, [&](auto& comm) {
          auto model = make_sharded<float>(comm, deep);
          expect(model.bytes() == (2 * 40 * 751 + 4 * 3'001) * sizeof(float), "bytes");
          std::vector<std::size_t> held{model.parameters().size()};
          ringlet::all_reduce(comm, held);
          expect(held[0] == 40 * 3'001, "all have it together, each element once");
        }) == 0);
}

OVER_BOTH("forward and back, a rank sends 3 (n-1)/n of the model") {
  counts const even(10, 4'000);
  CHECK(on<Ranks>(4, [&](auto& comm) {
          auto model = make_sharded<float>(comm, even);
          auto const before = comm.counters().sent;
          for (std::size_t i = 0; i < 10; ++i) model.gather(i), model.weights(i);
          for (std::size_t i = 10; i-- > 0; model.scatter(i)) model.gather(i), model.weights(i), model.gradient(i);
          model.wait();
          expect(comm.counters().sent - before == 3 * 40'000 * sizeof(float) * 3 / 4, "bytes sent");
        }) == 0);
}

TEST_CASE("what is gathered gets on while a layer computes and polls") {
  CHECK(on<threads<ringlet::in_process>>(2, [](auto& comm) {
          auto model = make_sharded<float>(comm, layers);
          for (std::size_t i = 0; i < layers.size(); ++i) model.assign(i, layer(i));
          model.gather(0);
          auto const now = model.weights(0);
          model.gather(5);
          auto const until = std::chrono::steady_clock::now() + 20s;
          while (model.poll() == ringlet::status::pending && std::chrono::steady_clock::now() < until)
            expect(is_layer(now, 0), "the layer at work");
          expect(model.poll() == ringlet::status::ready, "nobody waited");
          auto const g = model.gradient(5);
          g[0] = g[39'999] = 1;
          model.scatter(5);
          while (model.poll() == ringlet::status::pending && std::chrono::steady_clock::now() < until) continue;
          expect(model.poll() == ringlet::status::ready, "nor did they for gradients");
          model.wait();
          auto const mine = model.gradients().last(20'000);
          expect(mine[comm.rank() == 0 ? 0 : 19'999] == 2, "the sum");
        }) == 0);
}

TEST_CASE("gradients of any element add up, as operators add: also of 16 bits, and integers that wrap around") {
  CHECK(on<threads<ringlet::in_process>>(2, [](auto& comm) {
          auto const twice = [&]<class T>(T once, T sum) {
            auto model = make_sharded<T>(comm, counts{4});
            for (int pass = 0; pass < 2; ++pass) {
              for (T& g : model.gradient(0)) g = once;
              model.scatter(0);
            }
            model.wait();
            expect(model.gradients()[0] == sum, "the sum of four");
          };
          twice(ringlet::bfloat16(1.5F), ringlet::bfloat16(6.0F));
          twice(ringlet::float16(1.5F), ringlet::float16(6.0F));
          twice(1 << 30, 0);
        }) == 0);
}

TEST_CASE("an average, and other policies of operators") {
  CHECK(on<threads<ringlet::in_process>>(2, [](auto& comm) {
          auto model = make_sharded<float>(comm, counts{4}, ringlet::average{});
          for (float& g : model.gradient(0)) g = static_cast<float>(1 + 2 * comm.rank());
          model.scatter(0);
          model.wait();
          expect(model.gradients()[0] == 2, "the mean of 1 and 3");
        }) == 0);
}

TEST_CASE("wrong uses are refused in words, and the model is of use afterwards") {
  CHECK(on<threads<ringlet::in_process>>(2, [](auto& comm) {
          auto model = make_sharded<float>(comm, counts{4, 5, 6});
          auto refused = [](auto f, char const* words) { expect(error_of(f), errc::invalid_argument, words); };
          refused([&] { model.gather(3); }, "there is no layer 3: this model has 3");
          refused([&] { model.weights(1); }, "layer 1 is not gathered: gather(1) must be one of the last two gathers");
          refused([&] { model.scatter(1); },
                  "there is no gradient of layer 1 to scatter: write it to gradient(1) first");
          refused([&] { model.assign(1, std::vector<float>(6)); }, "layer 1 has 5 weights, but 6 are given");
          for (std::size_t i = 0; i < 3; ++i) model.gather(i), refused([&] { model.gather(3); }, "there is no layer 3");
          refused([&] { model.weights(0); }, "layer 0 is not gathered");
          expect(model.weights(1).size() == 5 && model.weights(2).size() == 6, "the last two");
          model.gradient(1), model.scatter(1);
          refused([&] { model.scatter(1); }, "there is no gradient of layer 1");
          model.wait();
        }) == 0);
}

TEST_CASE("a rank that fails while weights are gathered is an error at the others") {
  std::atomic<bool> started = false;
  CHECK(on<threads<ringlet::in_process>>(2, [&](auto& comm) {
          auto model = make_sharded<float>(comm, layers);
          if (comm.rank() == 0) {
            started.wait(false);
            return comm.abort("it had enough");
          }
          model.gather(5);
          started = true, started.notify_one();
          expect(error_of([&] { model.weights(5); }), errc::aborted, "it had enough");
          expect(model.poll() == ringlet::status::failed, "the poll");
        }) == 0);
}
