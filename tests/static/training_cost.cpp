// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/training_cost.hpp"

using namespace ringlet;
using namespace ringlet::planning;

// Powers of two, so that nothing is rounded.
constexpr double kilo = 1 << 10, mega = 1 << 20;
constexpr link_cost wire{1.0 / kilo, 1.0 / mega, 0};

// --- one message, and all of a step ---

constexpr demand all_reduces{pattern::all_reduce, 10, mega, 10, 0, 0};
constexpr demand gathers{pattern::gather_and_scatter, 3, mega, 1, 2, 0};
constexpr demand neighbours{pattern::point_to_point, 4, mega, 0, 4, 3};

// A ring of 8 sends 14 or 7 eighths; a neighbour is sent everything; nobody sends anything to himself.
static_assert(message_time(all_reduces, 8, wire) == 14 * (1 / kilo + 1.0 / 8));
static_assert(message_time(gathers, 8, wire) == 7 * (1 / kilo + 1.0 / 8));
static_assert(message_time(neighbours, 8, wire) == 1 / kilo + 1);
static_assert(message_time(all_reduces, 1, wire) == 0);
static_assert(busy_time(all_reduces, 8, wire) == 10 * message_time(all_reduces, 8, wire));

// What cannot hide counts, and what is left when there is nothing more to hide behind.
static_assert(exposed_time(all_reduces, 8, wire) == busy_time(all_reduces, 8, wire));
static_assert(exposed_time(gathers, 8, wire) == busy_time(gathers, 8, wire));
static_assert(exposed_time(neighbours, 8, wire) == 4 * (1 + 1 / kilo) - 3);
constexpr demand with_time{pattern::point_to_point, 4, mega, 0, 4, 5};
static_assert(exposed_time(with_time, 8, wire) == 0);

// --- the pipeline's idle time ---

static_assert(idle_fraction(1, 1) == 0);
static_assert(idle_fraction(4, 1) == 0.75);                  // one thing at a time: three of four stages wait
static_assert(idle_fraction(4, 3) == 0.5);                   // three units at the start and three at the end
static_assert(idle_fraction(4, 13) < idle_fraction(4, 12));  // more pieces shrink it
static_assert(idle_fraction(5, 4) == 0.5);

// --- what a device computes ---

constexpr training small{.parameters = 1 << 20, .layers = 8, .hidden = 64, .sequence = 32, .batch = 64};
constexpr degrees all_four{{2, 4, 2, 8}};  // tensor, state, pipeline, data
static_assert(all_four.product() == 128 && all_four[axis::data] == 8);
// 64 sequences over 8 x 4 replicas: 2 microbatches of 32 tokens.
constexpr work each = work_of(small, all_four, mega);
static_assert(each.microbatches == 2 && each.tokens == 32);
// 6 operations a parameter and 12 a layer, hidden value and token of the sequence; a fourth of the model.
constexpr double operations = 32 * (6 * mega + 12.0 * 8 * 64 * 32) / 4;
static_assert(each.forward + each.backward == operations / mega);
static_assert(each.compute() == 2 * operations / mega);
static_assert(each.backward > 1.99 * each.forward && each.backward < 2.01 * each.forward);

// --- what each axis sends ---

constexpr demand tensor = demand_of(axis::tensor, small, all_four, each);
// Two blocks a layer, four layers a stage, two microbatches, forward and backward: all wait for each.
static_assert(tensor.how == pattern::all_reduce && tensor.messages == 32 && tensor.unhidden == 32);
static_assert(tensor.bytes == 32 * 64 * 2);  // tokens, hidden values, bytes: no parameters

constexpr demand pipeline = demand_of(axis::pipeline, small, all_four, each);
static_assert(pipeline.how == pattern::point_to_point && pipeline.messages == 4 && pipeline.unhidden == 2);
static_assert(pipeline.bytes == 32 * 64 * 2 && pipeline.hideable == 4 && pipeline.beside == each.compute());

constexpr demand state = demand_of(axis::state, small, all_four, each);
// Three a layer. A layer's weights are an eighth, and tensor has cut them in two.
static_assert(state.how == pattern::gather_and_scatter && state.messages == 12 && state.unhidden == 2);
static_assert(state.bytes == mega * 2 / 8 / 2 && state.hideable == 10);
constexpr demand at_once = demand_of(
    axis::state,
    [] {
      training t = small;
      t.prefetch = false;
      return t;
    }(),
    all_four, each);
static_assert(at_once.unhidden == 12 && at_once.hideable == 0);

constexpr demand data = demand_of(axis::data, small, all_four, each);
// A bucket a layer; a sixteenth of the gradients is this device's.
static_assert(data.how == pattern::all_reduce && data.messages == 4 && data.messages * data.bytes == mega * 2 / 16);
static_assert(data.unhidden == 1 && data.hideable == 3 && data.beside == each.backward);

// An axis that is not divided sends nothing.
constexpr degrees alone{};
static_assert([] {
  for (axis a : {axis::tensor, axis::state, axis::pipeline, axis::data})
    if (demand const d = demand_of(a, small, alone, work_of(small, alone, mega));
        d.messages != 0 || d.unhidden != 0 || d.hideable != 0)
      return false;
  return true;
}());

// Tensor traffic grows with tokens and not with the model; state's and data's the other way round.
constexpr training longer = [] {
  training t = small;
  t.sequence *= 2;
  return t;
}();
constexpr training larger = [] {
  training t = small;
  t.parameters *= 2;
  return t;
}();
constexpr double sent(axis a, training const& t) {
  demand const d = demand_of(a, t, all_four, work_of(t, all_four, mega));
  return d.messages * d.bytes;
}
static_assert(sent(axis::tensor, longer) == 2 * sent(axis::tensor, small));
static_assert(sent(axis::tensor, larger) == sent(axis::tensor, small));
static_assert(sent(axis::state, longer) == sent(axis::state, small) &&
              sent(axis::data, longer) == sent(axis::data, small));
static_assert(sent(axis::state, larger) == 2 * sent(axis::state, small));
static_assert(sent(axis::data, larger) == 2 * sent(axis::data, small));

// 80 layers of one block each exchange 160 times a step.
constexpr training eighty{.parameters = 7e10, .layers = 80, .hidden = 8192, .sequence = 6104, .batch = 1, .blocks = 1};
constexpr degrees eight{{8, 1, 1, 1}};
static_assert(demand_of(axis::tensor, eighty, eight, work_of(eighty, eight, 1)).messages == 160);
static_assert(demand_of(axis::tensor, eighty, eight, work_of(eighty, eight, 1)).bytes > 99e6);
static_assert(demand_of(axis::tensor, eighty, eight, work_of(eighty, eight, 1)).bytes < 101e6);

// --- what a device holds ---

constexpr memory_need holds = memory_of(small, all_four, each);
static_assert(holds.weights == mega * 2 / 16 && holds.gradients == holds.weights);
static_assert(holds.optimizer == mega * 12 / 16);
static_assert(holds.gathered == 2 * state.bytes);  // this layer and the next
static_assert(holds.activations == 2 * 4 * 32.0 * 64 * (10 + 12));
// Without the state axis nothing is gathered, and all of it stays.
constexpr memory_need whole = memory_of(small, alone, work_of(small, alone, mega));
static_assert(whole.gathered == 0 && whole.weights + whole.gradients + whole.optimizer == 16 * mega);
