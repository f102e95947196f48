// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/planner.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace ringlet;
using namespace ringlet::planning;

namespace {

template <class F>
std::string refused(F&& f) {
  try {
    f();
  } catch (error const& e) {
    return e.why() == errc::invalid_argument ? e.words() : "something else";
  }
  return "nothing";
}
bool contains(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

training const large{.parameters = 70e9, .layers = 80, .hidden = 8192, .sequence = 4096, .batch = 1024};
cluster const nodes{400e12, 80e9, {{"node", 400e9, 1.5e-6, 8}, {"network", 25e9, 5e-6, 1 << 14}}};

// A table from which the four axes are taught, as it is printed (README.md shows what comes out):
//
//   axis      messages a step  MB a message  collective               link, GB/s  degree
//   data                    1            20  marked 0                         25    1024
//   tensor                160           100  1                               400       8
//   pipeline                6            30  0, to one neighbour              25      16
//   state                   3            60  1                               400      64
//
// It does not say what computation this is beside. 100 MB are the activations of 6,104 tokens in a model of 80 layers
// with 8,192 hidden values, which has 70 G parameters; a device does 400 T operations a second. Divided by tensor 8,
// pipeline 16 and state 64, a device's gradients are 17 MB, about the 20 of the table: so the rows belong together. A
// share of 10 % of computation is what an axis may add.
constexpr double alone = 6 * 70e9 * 6104 / 400e12;  // seconds, on one device
constexpr double one_of_128 = alone / 8 / 16;       // on one of tensor 8 x pipeline 16
std::vector<device_link> const links{{"fast", 400e9, 1.5e-6, 1 << 20}, {"slow", 25e9, 1.5e-6, 1 << 20}};
std::size_t constexpr fast = 0, slow = 1;

// The next operation of the layer waits for each: nothing hides.
constexpr demand tensor_row{pattern::all_reduce, 160, 100e6, 160, 0, 0};
// Printed as no collective, and the text all-reduces: one large message at the end of a step.
constexpr demand data_row{pattern::all_reduce, 1, 20e6, 1, 0, 0};
// Point to point, and it can be overlapped.
constexpr demand pipeline_row{pattern::point_to_point, 6, 30e6, 0, 6, one_of_128};
// Three a layer, and a stage of 16 has 5 of 80 layers: two gathers of weights and a scatter of gradients, each waited
// for.
constexpr demand state_row{pattern::gather_and_scatter, 3 * 5, 60e6, 3 * 5, 0, 0};

}  // namespace

TEST_CASE("the table: each axis goes on the link whose speed its traffic can live with") {
  CHECK(slowest_link(links, tensor_row, 8, alone / 8) == fast);
  CHECK(slowest_link(links, state_row, 64, one_of_128) == fast);
  CHECK(slowest_link(links, pipeline_row, 16, one_of_128) == slow);
  CHECK(slowest_link(links, data_row, 1024, one_of_128) == slow);
  // One step further than the table goes, even the fast link does not help tensor and state.
  CHECK(!slowest_link(links, tensor_row, 16, alone / 16));
  CHECK(!slowest_link(links, state_row, 128, one_of_128));
}

TEST_CASE("the table: each degree's ceiling is where it is for a reason") {
  auto const beside = [](demand d, double compute) { return [=](int) { return std::pair(d, compute); }; };
  // Tensor: what it exchanges hardly shrinks with the degree, while computation is shared out.
  CHECK(ceiling_on(links[fast], [](int n) { return std::pair(tensor_row, alone / n); }) == 8);
  CHECK(ceiling_on(links[slow], [](int n) { return std::pair(tensor_row, alone / n); }) == 1);
  // State: it scales with the model and not with the batch, and its steps are latency in the end.
  CHECK(ceiling_on(links[fast], beside(state_row, one_of_128)) == 64);
  CHECK(ceiling_on(links[slow], beside(state_row, one_of_128)) == 1);
  // Data: 2(n-1) latencies. A larger batch for each device helps.
  CHECK(ceiling_on(links[slow], beside(data_row, one_of_128)) == 1024);
  CHECK(ceiling_on(links[slow], beside(data_row, 2 * one_of_128)) == 2048);
  // Pipeline: not its messages, which hide, but idle time. The table does not say how many microbatches there are: 16
  // stages want 135 of them; with the 3 that its six messages make they would be idle for five sixths of the time.
  CHECK(exposed_time(pipeline_row, 16, links[slow].cost()) == 0);
  CHECK(idle_fraction(16, 135) == 0.1);
  CHECK(idle_fraction(16, 134) > 0.1);
  CHECK(idle_fraction(16, 3) == doctest::Approx(15.0 / 18));
}

TEST_CASE("in a cluster of nodes, tensor stays inside, and what goes between nodes is what can live with it") {
  degrees d;
  d[axis::tensor] = 8, d[axis::pipeline] = 4, d[axis::state] = 4, d[axis::data] = 8;
  plan const p = assign(large, nodes, d);
  CHECK(p.axes[0].which == axis::tensor);
  CHECK(nodes.links[p.of(axis::tensor).link].name == "node");
  for (axis a : {axis::state, axis::pipeline, axis::data}) CHECK(nodes.links[p.of(a).link].name == "network");
  CHECK(p.each.microbatches == 32);
  CHECK(p.idle == doctest::Approx(3.0 / 35));
  CHECK(p.fits);
  // The step is what it is made of.
  double exposed = 0;
  for (axis_plan const& a : p.axes) exposed += a.exposed * (a.which == axis::tensor ? 35.0 / 32 : 1);
  CHECK(p.step == doctest::Approx(p.compute * 35 / 32 + exposed));
  CHECK(p.axes.back().reach == 1024);
}

TEST_CASE("no order of axes is better than the one that is assigned") {
  degrees d;
  d[axis::tensor] = 4, d[axis::pipeline] = 4, d[axis::state] = 2, d[axis::data] = 8;
  plan const best = assign(large, nodes, d);
  std::array<axis, axis_count> order{axis::tensor, axis::state, axis::pipeline, axis::data};
  int worse = 0, orders = 0;
  do {
    auto const p = divide(large, nodes, d, order);
    REQUIRE(p);
    CHECK(p->step >= best.step);
    worse += p->step > best.step;
    ++orders;
  } while (std::next_permutation(order.begin(), order.end()));
  CHECK(orders == 24);
  CHECK(worse > 12);
}

TEST_CASE("an axis that is told its link takes it, or is refused") {
  degrees d;
  d[axis::tensor] = 8, d[axis::data] = 8;
  chosen_links told;
  told[static_cast<std::size_t>(axis::tensor)] = 1;
  plan const p = assign(large, nodes, d, told);
  CHECK(p.of(axis::tensor).link == 1);
  CHECK(p.step > assign(large, nodes, d).step);
  d[axis::tensor] = 16;
  told[static_cast<std::size_t>(axis::tensor)] = 0;
  CHECK(contains(refused([&] { assign(large, nodes, d, told); }), "no order of axes"));
}

TEST_CASE("the search finds the shortest step that fits into memory") {
  plan const best = search(large, nodes, 256);
  CHECK(best.fits);
  CHECK(best.by.product() == 256);
  for (int tensor : {1, 2, 4, 8, 16})
    for (int state : {1, 2, 4, 8, 16, 32})
      for (int pipeline : {1, 2, 4, 8}) {
        degrees d{{tensor, state, pipeline, 256 / (tensor * state * pipeline)}};
        if (d[axis::data] == 0 || d.product() != 256) continue;
        plan const p = assign(large, nodes, d);
        CHECK((p.step >= best.step || !p.fits));
      }
  // Not everything fits: the fastest without a bound does not.
  cluster endless = nodes;
  endless.memory = 1e15;
  CHECK(search(large, endless, 256).step < best.step);
  CHECK(contains(refused([] { search(large, nodes, 8); }), "8 devices of 80 GB are not enough: each would need"));
  CHECK(contains(refused([] { search(large, nodes, 7); }), "no degrees multiply to 7 devices"));
  CHECK(contains(refused([] { search(large, nodes, 0); }), "devices is 0"));
  CHECK(
      contains(refused([] { search(large, nodes, 32'768); }), "give 1 to 16384, which link network, the last, joins"));
}

TEST_CASE("ceilings of a plan come with their reasons") {
  degrees d;
  d[axis::tensor] = 8, d[axis::pipeline] = 4, d[axis::state] = 4, d[axis::data] = 8;
  plan const p = assign(large, nodes, d);
  auto const of = [&](axis a, double tolerated = 0.1) { return ceiling_of(a, p, large, nodes, tolerated); };
  CHECK(of(axis::tensor).degree == 4);
  CHECK(of(axis::tensor).why == "17.4 % of computation would be added, over node");
  CHECK(of(axis::tensor, 0.5).degree == 8);
  CHECK(contains(of(axis::tensor, 0.5).why, "% of computation would be added, over network"));
  CHECK(of(axis::pipeline).degree == 4);
  CHECK(of(axis::pipeline).why == "idle for 17.9 % of the time");
  CHECK(of(axis::data).degree == 128);
  CHECK(of(axis::data).why == "no link joins 32768 devices");
  training few = large;
  few.batch = 64;
  CHECK(ceiling_of(axis::data, assign(few, nodes, d), few, nodes).why ==
        "a batch of 64 does not divide by data 32 x state 4 x microbatch 1");
  // With a tolerance of nothing, no axis goes anywhere, whatever the plan says.
  CHECK(ceiling_of(axis::tensor, p, large, nodes, 0).degree == 1);
}

TEST_CASE("axes that share a link hide behind the same computation, once") {
  degrees d;
  d[axis::state] = 64, d[axis::data] = 16;
  training t = large;
  cluster c = nodes;
  c.links[1].bandwidth = 100e9;
  plan const roomy = assign(t, c, d);
  CHECK(roomy.contended == 0);
  // So slow that the weights alone take nearly as long as computation does.
  c.links[1].bandwidth *= roomy.of(axis::state).busy / roomy.compute;
  plan const p = assign(t, c, d);
  axis_plan const &state = p.of(axis::state), &data = p.of(axis::data);
  REQUIRE(state.link == 1);
  REQUIRE(data.link == 1);
  double const hides = state.busy - state.exposed + data.busy - data.exposed;
  CHECK(hides > p.compute);
  CHECK(p.contended == doctest::Approx(hides - p.compute));
  CHECK(p.step == doctest::Approx(p.compute + state.exposed + data.exposed + p.contended));
}

TEST_CASE("the timeline is idle for (p-1)/(m+p-1) of the time, p-1 units at each end") {
  for (int p : {1, 2, 4, 8})
    for (int m : {1, 2, 3, 4, 8, 33}) {
      auto const all = timeline(p, m, 4, 8, 0);
      REQUIRE(all.size() == static_cast<std::size_t>(2 * p * m));
      double end = 0, busy = 0, first_of_last = 0;
      for (activity const& a : all) {
        end = std::max(end, a.end), busy += a.end - a.begin;
        if (a.stage == p - 1 && a.forward && a.microbatch == 0) first_of_last = a.begin;
      }
      CHECK(end == (m + p - 1) * 12.0);
      CHECK(1 - busy / (p * end) == doctest::Approx(idle_fraction(p, m)));
      CHECK(first_of_last == (p - 1) * 4.0);  // the last stage waits for so many forward units
    }
}

TEST_CASE("the timeline's messages cost what the closed form says: filling and draining, no more") {
  for (int p : {2, 4, 8})
    for (int m : {1, 2, 4, 33})
      for (double message : {1.0, 2.0, 4.0}) {
        double end = 0;
        for (activity const& a : timeline(p, m, 4, 8, message)) end = std::max(end, a.end);
        CHECK(end == (m + p - 1) * 12.0 + 2 * (p - 1) * message);
      }
}

TEST_CASE("a plan's step is as long as its timeline, and what stands before and after that") {
  for (int stages : {1, 2, 4, 8}) {
    degrees d;
    d[axis::tensor] = 8, d[axis::pipeline] = stages, d[axis::state] = 4, d[axis::data] = 32 / stages;
    plan const p = assign(large, nodes, d);
    auto const m = static_cast<int>(p.each.microbatches);
    double const waits = p.of(axis::tensor).exposed / m / 2;
    axis_plan const& pipeline = p.of(axis::pipeline);
    double const message = message_time(pipeline.needs, stages, nodes.links[pipeline.link].cost());
    double end = 0;
    for (activity const& a : timeline(stages, m, p.each.forward + waits, p.each.backward + waits, message))
      end = std::max(end, a.end);
    CHECK(p.step == doctest::Approx(end + p.of(axis::state).exposed + p.of(axis::data).exposed + p.contended));
  }
}

TEST_CASE("a timeline is possible: one thing at a time, nothing before what it needs") {
  int const p = 4, m = 8;
  double const message = 0.5;
  auto const all = timeline(p, m, 1, 2, message);
  auto const find = [&](int stage, int i, bool forward) {
    return *std::find_if(all.begin(), all.end(), [&](activity const& a) {
      return a.stage == stage && a.microbatch == i && a.forward == forward;
    });
  };
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i].stage == all[i - 1].stage) CHECK(all[i].begin >= all[i - 1].end);
  for (int i = 0; i < m; ++i)
    for (int s = 0; s < p; ++s) {
      if (s > 0) CHECK(find(s, i, true).begin >= find(s - 1, i, true).end + message);
      if (s + 1 < p) CHECK(find(s, i, false).begin >= find(s + 1, i, false).end + message);
      CHECK(find(s, i, false).begin >= find(s, i, true).end);
    }
}

TEST_CASE("what makes no sense is refused, in words that say what was given") {
  auto const with = [](auto change) {
    training t = large;
    cluster c = nodes;
    change(t, c);
    return refused([&] { check(t, c); });
  };
  CHECK(with([](auto&, auto&) {}) == "nothing");
  CHECK(with([](auto& t, auto&) { t.parameters = 0; }) == "parameters is 0: give a number above 0");
  CHECK(with([](auto& t, auto&) { t.layers = -80; }) == "layers is -80: give a number above 0");
  CHECK(contains(with([](auto& t, auto&) { t.bytes = std::numeric_limits<double>::quiet_NaN(); }), "bytes is nan"));
  CHECK(contains(with([](auto& t, auto&) { t.optimizer = -1; }), "optimizer is -1"));
  CHECK(contains(with([](auto& t, auto&) { t.buckets = -1; }), "buckets is -1"));
  CHECK(contains(with([](auto&, auto& c) { c.links.clear(); }), "no links"));
  CHECK(contains(with([](auto&, auto& c) { c.links[0].name.clear(); }), "no name"));
  CHECK(contains(with([](auto&, auto& c) { c.links[0].bandwidth = 0; }), "the bandwidth of link node is 0"));
  CHECK(contains(with([](auto&, auto& c) { c.links[1].latency = -1; }), "the latency of link network is -1"));
  CHECK(contains(with([](auto&, auto& c) { c.links[1].name = "node"; }), "two links have the name node"));
  CHECK(contains(with([](auto& t, auto&) { t.hidden = 2'000'000'000; }), "hidden is 2000000000: give 1000000000 or"));
  CHECK(contains(with([](auto&, auto& c) { c.links[1].devices = 8; }),
                 "link network joins 8 devices, not more than node"));
  degrees d;
  d[axis::tensor] = 3;
  CHECK(contains(refused([&] { assign(large, nodes, d); }), "8192 hidden values do not divide by tensor 3"));
  d[axis::tensor] = 0;
  CHECK(contains(refused([&] { assign(large, nodes, d); }), "the degree of tensor is 0"));
  d[axis::tensor] = 1, d[axis::pipeline] = 3;
  CHECK(contains(refused([&] { assign(large, nodes, d); }), "80 layers do not divide by pipeline 3"));
  d[axis::pipeline] = 1, d[axis::data] = 1000;
  CHECK(contains(refused([&] { assign(large, nodes, d); }), "a batch of 1024 does not divide by data 1000"));
  d.of = {1, 1 << 30, 1, 1 << 30};  // whose product with the microbatch is 2^64
  training sixteen = large;
  sixteen.microbatch = 16;
  CHECK(contains(refused([&] { assign(sixteen, nodes, d); }), "does not divide by data 1073741824 x state 1073741824"));
  d.of = {1024, 1, 16, 4};
  CHECK(contains(refused([&] { assign(large, nodes, d); }),
                 "are 65536 devices, but link network, the last, joins 16384"));
}
