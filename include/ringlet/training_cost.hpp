// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "ringlet/cost.hpp"

/// What a training run costs that is divided along four axes: what each of them sends in a step, how long that takes on
/// a link, what of it hides behind computation, what each device computes and holds.
///
/// All of it are closed forms, for runs that no machine at hand could try. Bytes are bytes, times are seconds, and
/// messages are those of one device in one step, which is what repeats.
namespace ringlet::planning {

/// The four ways of dividing a run. Their degrees multiply.
enum class axis : std::uint8_t {
  tensor,    ///< each layer is cut across devices
  state,     ///< weights, gradients and optimizer state are cut; weights are gathered for use
  pipeline,  ///< layers stand on different devices
  data,      ///< the same model, different data
};
inline constexpr std::size_t axis_count = 4;
/// An axis' name.
constexpr char const* to_string(axis a) {
  constexpr char const* names[] = {"tensor", "state", "pipeline", "data"};
  return names[static_cast<std::size_t>(a)];
}

/// A transformer, and how it is trained.
struct training {
  double parameters = 0;  ///< of the whole model
  int layers = 0;         ///< equal ones
  int hidden = 0;         ///< values of a token between layers
  int sequence = 0;       ///< tokens of one sequence
  int batch = 0;          ///< sequences of one step, over all devices
  int microbatch = 1;     ///< sequences that go through the model at once
  int blocks = 2;         ///< of a layer: a column cut chained into a row cut each. Attention and MLP are two
  double bytes = 2;       ///< of an activation, a weight and a gradient
  /// Bytes of optimizer state a parameter: Adam in float32, with the weights (ZeRO, section 3.1).
  double optimizer = 12;
  bool prefetch = true;  ///< whether a layer's weights are gathered while the one before it computes
  int buckets = 0;       ///< gradients are exchanged in so many messages; 0: one a layer. 1 is one at the end
};

/// How far each axis is divided.
struct degrees {
  std::array<int, axis_count> of{1, 1, 1, 1};  ///< by axis
  constexpr int operator[](axis a) const { return of[static_cast<std::size_t>(a)]; }
  constexpr int& operator[](axis a) { return of[static_cast<std::size_t>(a)]; }
  /// Devices in all: a whole number, but one that may be larger than an integer holds.
  constexpr double product() const {
    double all = 1;
    for (int d : of) all *= d;
    return all;
  }
  /// Parts into which tensor and pipeline cut the model's weights and its computation.
  constexpr double parts() const { return static_cast<double>((*this)[axis::tensor]) * (*this)[axis::pipeline]; }
};

/// How an axis exchanges.
enum class pattern : std::uint8_t {
  all_reduce,          ///< a ring, 2(n-1) steps
  gather_and_scatter,  ///< all-gathers and reduce-scatters, n-1 steps each
  point_to_point,      ///< from one device to the next
};
/// A pattern's name.
constexpr char const* to_string(pattern p) {
  constexpr char const* names[] = {"all-reduce", "gather, scatter", "point to point"};
  return names[static_cast<std::size_t>(p)];
}

/// What an axis asks of its link in one step.
struct demand {
  pattern how = pattern::all_reduce;
  double messages = 0;  ///< that a device sends; of a collective, that it takes part in
  double bytes = 0;     ///< of one message: of the whole buffer, for a collective
  double unhidden = 0;  ///< messages for which all wait
  double hideable = 0;  ///< messages that may travel beside computation,
  double beside = 0;    ///< which takes so many seconds
};

/// Seconds of one message among `degree` devices: Hockney's exchange, or the ring's time in one slice a chunk
/// (cost.hpp).
constexpr double message_time(demand const& d, int degree, link_cost c) {
  if (degree == 1) return 0;
  if (d.how == pattern::point_to_point) return exchange_time(d.bytes, c);
  int const sends = (d.how == pattern::all_reduce ? 2 : 1) * (degree - 1);
  return schedule_time(traffic{sends + 1, sends, sends, 0}, d.bytes / degree, c);
}
/// Seconds for which an axis keeps its link busy in a step.
constexpr double busy_time(demand const& d, int degree, link_cost c) { return d.messages * message_time(d, degree, c); }
/// Seconds by which an axis lengthens the step: what cannot hide, and what finds nothing more to hide behind.
constexpr double exposed_time(demand const& d, int degree, link_cost c) {
  double const one = message_time(d, degree, c), left = d.hideable * one - d.beside;
  return d.unhidden * one + (left > 0 ? left : 0);
}

/// The share of time for which a pipeline of `stages` stands idle: stages - 1 of m + stages - 1 units, at its ends
/// (Huang et al., "GPipe", 2019). The same for all forward first and for one forward, one backward.
constexpr double idle_fraction(int stages, double microbatches) { return (stages - 1) / (microbatches + stages - 1); }

/// What one device computes.
struct work {
  double microbatches = 0;  ///< that pass through it in a step
  double tokens = 0;        ///< of one microbatch
  double forward = 0;       ///< seconds of one microbatch
  double backward = 0;      ///< twice as much
  /// Seconds of a step, idle time left out.
  constexpr double compute() const { return microbatches * (forward + backward); }
};

/// A token costs 6 operations a parameter, a third of them forward (Kaplan et al., "Scaling laws for neural language
/// models", 2020), and 12 a layer for each pair of hidden value and token in the sequence (Chowdhery et al., "PaLM",
/// 2022, appendix B). Tensor and pipeline share them out.
constexpr work work_of(training const& t, degrees const& d, double flops) {
  work w;
  w.microbatches = static_cast<double>(t.batch) / d[axis::data] / d[axis::state] / t.microbatch;
  w.tokens = static_cast<double>(t.microbatch) * t.sequence;
  double const token = 6 * t.parameters + 12.0 * t.layers * t.hidden * t.sequence;
  double const both = token * w.tokens / d.parts() / flops;
  w.forward = both / 3, w.backward = both - both / 3;
  return w;
}

/// What an axis sends.
///
/// - tensor: each block all-reduces the activations of a microbatch once forward and once backward, and the layer waits
///   (Shoeybi et al., "Megatron-LM", 2019). It grows with tokens.
/// - pipeline: a stage passes on the activations of each microbatch, and hands back their gradients. What fills and
///   drains the pipeline has nothing to hide behind; the rest does, where stages are enough microbatches ahead (Zhuang
///   et al., "On optimizing the communication of model parallelism", 2022).
/// - state: each layer's weights are gathered forward and again backward, its gradients are scattered (Rajbhandari et
///   al., "ZeRO", 2019, section 7). The first gather and the last scatter have nothing to hide behind; without
///   prefetch, none has. It grows with the model.
/// - data: the gradients are all-reduced, in buckets, while the last microbatch goes backward; the last bucket cannot
///   hide (Li et al., "PyTorch Distributed", 2020). The table that this planner is tested with marks this axis as no
///   collective, and the text beside it has it all-reduce: that is what is computed.
constexpr demand demand_of(axis which, training const& t, degrees const& d, work const& w) {
  double const layers = static_cast<double>(t.layers) / d[axis::pipeline];  // of a stage
  double const activations = w.tokens * t.hidden * t.bytes;
  double const stage = t.parameters * t.bytes / d.parts();  // weights, in bytes
  demand n;
  switch (which) {
    case axis::tensor:
      n = {pattern::all_reduce, 2.0 * t.blocks * layers * w.microbatches, activations, 0, 0, 0};
      n.unhidden = n.messages;
      break;
    case axis::pipeline:
      n = {pattern::point_to_point, 2 * w.microbatches, activations, 2.0 * (d[axis::pipeline] - 1), 0, w.compute()};
      n.hideable = 2 * w.microbatches;
      break;
    case axis::state:
      n = {pattern::gather_and_scatter, 3 * layers, stage / layers, t.prefetch ? 2 : 3 * layers, 0, w.compute()};
      n.hideable = n.messages - n.unhidden;
      break;
    case axis::data: {
      double const buckets = t.buckets == 0 ? layers : t.buckets;
      n = {pattern::all_reduce, buckets, stage / d[axis::state] / buckets, 1, buckets - 1, w.backward};
      break;
    }
  }
  if (d[which] == 1) n.messages = n.unhidden = n.hideable = 0;
  return n;
}

/// Bytes that a device needs.
struct memory_need {
  double weights = 0, gradients = 0, optimizer = 0;
  double gathered = 0;     ///< the layer at work and the next one, whole
  double activations = 0;  ///< of the microbatches under way
  constexpr double total() const { return weights + gradients + optimizer + gathered + activations; }
};

/// Weights, gradients and optimizer state are shared out (Rajbhandari et al., "ZeRO", 2019, stage 3). A layer keeps
/// 10 + 24 / tensor bytes a token and hidden value, computing attention anew (Korthikanti et al., "Reducing activation
/// recomputation in large transformer models", 2022, equation 2 without its last term), for each microbatch under way:
/// up to two a stage, so that messages hide.
constexpr memory_need memory_of(training const& t, degrees const& d, work const& w) {
  double const mine = t.parameters / d.parts();
  double const layers = static_cast<double>(t.layers) / d[axis::pipeline];
  memory_need m;
  m.weights = m.gradients = mine * t.bytes / d[axis::state];
  m.optimizer = mine * t.optimizer / d[axis::state];
  if (d[axis::state] > 1) m.gathered = std::min(2.0, layers) * mine * t.bytes / layers;
  double const under_way = std::min(w.microbatches, 2.0 * d[axis::pipeline] - 1);
  m.activations = under_way * layers * w.tokens * t.hidden * (10 + 24.0 / d[axis::tensor]);
  return m;
}

}  // namespace ringlet::planning
