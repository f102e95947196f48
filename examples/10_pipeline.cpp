// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A pipeline of four stages: each multiplies by a weight of its own, and learns from what comes back. The order of work
// is a closed form that the compiler proves; stages hand on activations and gradients by send and recv. The drawing
// shows the idle units at both ends, (p-1)/(m+p-1) of the time.
//
//     build/examples/10_pipeline [FILE]    and draws it into the file as SVG
#include "ringlet/pipeline.hpp"

#include <cstdio>
#include <fstream>
#include <memory>
#include <vector>

#include "ringlet/point_to_point.hpp"
#include "ringlet/ringlet.hpp"

constexpr int stages = 4, microbatches = 8;
constexpr std::size_t samples = 1'000;
using order = ringlet::one_forward_one_backward;
static_assert(ringlet::proved_pipeline<order>(stages, microbatches));

using values = std::vector<float>;
float weight_of(int stage) { return 1.0F + static_cast<float>(stage) / 4; }
values input_of(int microbatch) { return values(samples, static_cast<float>(microbatch + 1)); }
constexpr float target = 3;

// The gradient of a stage's weight, by one process alone.
float alone(int stage) {
  float gradient = 0;
  for (int m = 0; m < microbatches; ++m) {
    float before = input_of(m)[0], behind = 1, out = before;
    for (int s = 0; s < stages; ++s) {
      if (s < stage) before *= weight_of(s);
      if (s > stage) behind *= weight_of(s);
      out *= weight_of(s);
    }
    gradient += (out - target) * behind * before;
  }
  return gradient;
}

int main(int argc, char** argv) {
  auto const timeline = ringlet::pipeline_timeline::of<order>(stages, microbatches);
  std::printf("%s%.0f %% of the time is idle: (p-1)/(m+p-1)\n", timeline.text().c_str(),
              100 * timeline.idle_fraction());
  if (argc > 1 && !(std::ofstream(argv[1]) << timeline.svg()).flush()) return 1;

  return ringlet::launch(stages, [](auto who) {
    auto comm = ringlet::connect<ringlet::shared_memory>(who);
    int const me = comm.rank();
    float const weight = weight_of(me);
    float gradient = 0;
    std::vector<values> in(microbatches, values(samples)), out = in, back_in = in, back_out = in;
    using message = decltype(ringlet::async_send(comm, in[0], 0));
    std::vector<std::unique_ptr<message>> sent;  // while they travel, work goes on

    for (int k = 0; k < 2 * microbatches; ++k) {
      auto const [way, number] = order{me, stages, microbatches}[k];
      auto const m = static_cast<std::size_t>(number);
      auto send = [&](values& v, int to) { sent.emplace_back(new message(ringlet::async_send(comm, v, to))); };
      if (way == ringlet::unit_of_work::direction::forward) {
        if (me == 0) in[m] = input_of(number);
        if (me != 0) ringlet::recv(comm, in[m], me - 1);
        for (std::size_t i = 0; i < samples; ++i) out[m][i] = weight * in[m][i];
        if (me != stages - 1) send(out[m], me + 1);
      } else {
        if (me == stages - 1)
          for (std::size_t i = 0; i < samples; ++i) back_in[m][i] = out[m][i] - target;
        if (me != stages - 1) ringlet::recv(comm, back_in[m], me + 1);
        for (std::size_t i = 0; i < samples; ++i) back_out[m][i] = weight * back_in[m][i];
        gradient += back_in[m][0] * in[m][0];
        if (me != 0) send(back_out[m], me - 1);
      }
    }
    for (auto& each : sent) each->wait();
    // Per step a stage in the middle sends 2m messages to neighbours, and nothing else.
    bool const middle = me != 0 && me != stages - 1;
    auto const expected = static_cast<std::size_t>(microbatches * (middle ? 2 : 1)) * samples * sizeof(float);
    return gradient == alone(me) && comm.counters().sent == expected ? 0 : 1;
  });
}
