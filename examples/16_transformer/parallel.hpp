// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// The same model, divided along four axes at once:
//
//     data      each part of the ranks learns from other passages; gradients are added up, once a step
//     pipeline  each stage has some of the layers; what is between them goes to a neighbour, passage by passage
//     state     of each layer's weights, gradients and optimizer's state a rank keeps a chunk; other passages, too
//     tensor    attention and MLP are cut; partial sums are added up, once forward and once backward in each
//
// With all degrees 1 it is one process alone.
//
// It cannot lock: all ranks do the same in the order of the pipeline, so each waits only for ranks that are further
// back; and messages between stages fit the queue between two ranks, so that nobody waits to send.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ringlet/mesh.hpp"
#include "ringlet/pipeline.hpp"
#include "ringlet/point_to_point.hpp"
#include "ringlet/ringlet.hpp"
#include "ringlet/sharded.hpp"
#include "transformer.hpp"

// What a rank has exchanged along an axis.
struct exchanged {
  std::string axis, how;
  int degree;
  double passes;  // parts of a message that a rank sends, whatever the way: of an all-reduce 2(n-1)/n
  std::uint64_t messages = 0, bytes = 0;  // of whole buffers
  ringlet::counters counted{};            // what the communicator says

  void add(std::size_t elements) { ++messages, bytes += elements * sizeof(real); }
};

// A rank's part of the training.
// @tparam Near the transport for tensor and state, whose messages others wait for
// @tparam Far that for data and pipeline, whose messages are few
template <ringlet::transport Near, ringlet::transport Far>
class trainer {
 public:
  // @param whole the model; its cut is found here
  // @param batch passages of a step, in all
  template <class Bootstrap>
  trainer(Bootstrap const& who, ringlet::mesh<4> const& run, shape const& whole, tokens text, int batch,
          ringlet::connect_options<Far> const& far)
      : shape_(whole),
        text_(text),
        batch_(batch),
        everyone_(ringlet::connect<Near>(ringlet::along(who, run, "data", "pipeline", "state", "tensor"))),
        tensor_(ringlet::connect<Near>(ringlet::along(who, run, "tensor"))),
        state_(ringlet::connect<Near>(ringlet::along(who, run, "state"))),
        stages_(ringlet::connect<Far>(ringlet::along(who, run, "pipeline"), far)),
        data_(ringlet::connect<Far>(ringlet::along(who, run, "data"), far)),
        model_(ringlet::make_sharded<real>(state_, layers())),
        optimizer_(model_.parameters().size()),
        flights_(static_cast<std::size_t>(batch / (data_.size() * state_.size()))) {
    std::vector<real> weights;
    for (std::size_t i = 0; i < model_.layers(); ++i) {
      auto const l = make(i);
      weights.resize(l->count());
      l->initialize(weights.data(), first_ + static_cast<int>(i));
      model_.assign(i, weights);
    }
    before_ = counted();
  }

  // One step, and the loss before it: the same on all ranks.
  real step(int number) {
    using enum ringlet::unit_of_work::direction;
    real loss = 0;
    int const passages = static_cast<int>(flights_.size());
    ringlet::one_forward_one_backward const order{stages_.rank(), stages_.size(), passages};
    for (int k = 0; k < 2 * passages; ++k) {
      auto const [way, i] = order[k];
      flight& f = flights_[static_cast<std::size_t>(i)];
      if (way == forward) {
        begin(f, number * batch_ + (data_.rank() * state_.size() + state_.rank()) * passages + i);
        forward_pass(f);
      } else {
        backward_pass(f);
        loss += f.text.loss;
      }
    }
    model_.wait();
    for (auto& message : sent_) message->wait();
    sent_.clear();

    along_data_.add(model_.gradients().size());
    ringlet::all_reduce(data_, model_.gradients());
    optimizer_.step(model_.parameters(), model_.gradients());
    std::ranges::fill(model_.gradients(), 0);

    std::vector<real> sum{tensor_.rank() == 0 ? loss : 0};  // all parts have computed the same
    ringlet::all_reduce(everyone_, sum);
    return sum[0];
  }

  // What this rank has exchanged since the first step began.
  std::vector<exchanged> report() {
    std::vector<exchanged> all{along_tensor_, along_state_, along_stages_, along_data_};
    auto const now = counted();
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].counted.messages = now[i].messages - before_[i].messages;
      all[i].counted.sent = now[i].sent - before_[i].sent;
    }
    return all;
  }
  // Weights of which this rank keeps gradients and optimizer's state, and those which it works with.
  std::size_t kept() const { return model_.parameters().size(); }
  std::size_t used() const {
    std::size_t all = 0;
    for (std::size_t i = 0; i < model_.layers(); ++i) all += model_.chunks(i).count;
    return all;
  }
  std::size_t optimizer_bytes() const { return optimizer_.bytes(); }

 private:
  // A passage on its way through this stage.
  struct flight {
    passage text;
    std::vector<std::unique_ptr<layer>> layers;  // with what they keep for the way back
    matrix out, back;                            // what this stage sends
  };

  // The layers of this stage, for this part.
  std::vector<std::size_t> layers() {
    ringlet::partition const stages{static_cast<std::size_t>(layers_of(shape_)),
                                    static_cast<std::size_t>(stages_.size())};
    auto const me = static_cast<std::size_t>(stages_.rank());
    first_ = static_cast<int>(stages.offset(me));
    shape_.parts = tensor_.size(), shape_.part = tensor_.rank();
    std::vector<std::size_t> counts(stages.length(me));
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = make(i)->count();
    return counts;
  }
  std::unique_ptr<layer> make(std::size_t i) const { return make_layer(shape_, first_ + static_cast<int>(i)); }

  void begin(flight& f, int number) {
    auto const length = static_cast<std::size_t>(shape_.length);
    std::size_t const at = static_cast<std::size_t>(number) * 7919 % (text_.size() - length);
    f.text = {text_.subspan(at, length), text_.subspan(at + 1, length), real{1} / (batch_ * shape_.length),
              [this](matrix& partial) {
                model_.poll();  // the next layer's weights get on, and the last one's gradient
                along_tensor_.add(static_cast<std::size_t>(partial.size()));
                ringlet::all_reduce(tensor_, partial);
              }};
    for (std::size_t i = 0; i < model_.layers(); ++i) f.layers.push_back(make(i));
  }
  void forward_pass(flight& f) {
    matrix x = stages_.rank() == 0 ? matrix() : received(stages_.rank() - 1);
    gather(0);
    for (std::size_t i = 0; i < model_.layers(); ++i) {
      if (i + 1 < model_.layers()) gather(i + 1);
      x = f.layers[i]->forward(model_.weights(i).data(), x, f.text);
    }
    if (stages_.rank() + 1 < stages_.size()) send(f.out = x, stages_.rank() + 1);
  }
  void backward_pass(flight& f) {
    matrix d = stages_.rank() + 1 == stages_.size() ? matrix() : received(stages_.rank() + 1);
    gather(model_.layers() - 1);
    for (std::size_t i = model_.layers(); i-- > 0;) {
      if (i > 0) gather(i - 1);
      d = f.layers[i]->backward(model_.weights(i).data(), model_.gradient(i).data(), d, f.text);
      along_state_.add(model_.chunks(i).count);
      model_.scatter(i);
    }
    f.layers.clear();
    if (stages_.rank() > 0) send(f.back = d, stages_.rank() - 1);
  }

  void gather(std::size_t i) {
    along_state_.add(model_.chunks(i).count);
    model_.gather(i);
  }
  matrix received(int from) {
    matrix x(shape_.length, shape_.width);
    ringlet::recv(stages_, x, from);
    return x;
  }
  void send(matrix& x, int to) {
    along_stages_.add(static_cast<std::size_t>(x.size()));
    sent_.emplace_back(new ringlet::message_operation<Far, real>(ringlet::async_send(stages_, x, to)));
  }
  std::vector<ringlet::counters> counted() {
    return {tensor_.counters(), state_.counters(), stages_.counters(), data_.counters()};
  }
  exchanged along(char const* axis, int n, char const* how, double passes) const { return {axis, how, n, passes}; }

  shape shape_;
  tokens text_;
  int batch_, first_ = 0;  // passages of a step; the first layer here
  ringlet::communicator<Near> everyone_, tensor_, state_;
  ringlet::communicator<Far> stages_, data_;
  ringlet::sharded<real, Near> model_;
  adam optimizer_;
  std::vector<flight> flights_;
  std::vector<std::unique_ptr<ringlet::message_operation<Far, real>>> sent_;
  std::vector<ringlet::counters> before_;
  exchanged along_tensor_ = along("tensor", tensor_.size(), "all-reduce", 2 - 2.0 / tensor_.size());
  exchanged along_state_ = along("state", state_.size(), "gather, scatter", 1 - 1.0 / state_.size());
  exchanged along_stages_ = along("pipeline", stages_.size(), "point to point", 1);
  exchanged along_data_ = along("data", data_.size(), "all-reduce", 2 - 2.0 / data_.size());
};
