// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringlet/cost.hpp"
#include "ringlet/error.hpp"
#include "ringlet/training_cost.hpp"

/// Which axis of a training run can live with which link of a cluster, and where its degree has its ceiling.
namespace ringlet::planning {

/// What joins devices up to some number of them.
struct device_link {
  std::string name;
  double bandwidth = 0;  ///< bytes a second that each device can send over it while it receives as many
  double latency = 0;    ///< seconds until a message of no bytes has arrived
  int devices = 0;       ///< how many devices reach each other over it: of one node, of one rack, or all

  /// In Hockney's model; adding up is not what takes time on accelerators.
  constexpr link_cost cost() const { return {latency, 1 / bandwidth, 0}; }
};

/// The machines.
struct cluster {
  double flops = 0;                  ///< floating-point operations a second that a device really does
  double memory = 0;                 ///< bytes of a device
  std::vector<device_link> links{};  ///< from the one that joins fewest devices to the one that joins all
};

/// An axis in a plan.
struct axis_plan {
  axis which;
  int degree;
  std::int64_t reach;  ///< devices that its link must join: its own degree times those of the axes inside
  std::size_t link;    ///< which of the cluster's links it goes over
  demand needs;
  double busy, exposed;  ///< seconds a step, on that link
};

/// A run, divided.
struct plan {
  degrees by;
  std::vector<axis_plan> axes;  ///< from the innermost, whose devices are next to each other, to the outermost
  work each;
  double compute;    ///< seconds of a step in which a device computes
  double idle;       ///< share of the step's computation for which a stage stands still
  double contended;  ///< seconds by which axes that share a link find less to hide behind than each does alone
  double step;       ///< seconds of a step
  memory_need memory;
  bool fits;  ///< into the memory of a device

  axis_plan const& of(axis a) const {
    return *std::find_if(axes.begin(), axes.end(), [a](axis_plan const& p) { return p.which == a; });
  }
};

/// Links that axes are told to take, in place of the smallest that reaches: by axis, an index of the cluster's links.
using chosen_links = std::array<std::optional<std::size_t>, axis_count>;

/// Looks at sizes, speeds and their order.
/// @throws error(errc::invalid_argument) with what was given and what was expected
void check(training const& t, cluster const& c);
/// Whether degrees divide what they divide: layers, hidden values, the batch. Empty, or why not, in words.
std::string misfit(training const& t, degrees const& d);

/// What comes of axes in a given order.
/// @param order of axes, from the innermost
/// @return nothing when a link that an axis is told to take does not reach far enough
std::optional<plan> divide(training const& t, cluster const& c, degrees const& d,
                           std::array<axis, axis_count> const& order, chosen_links const& told = {});
/// The order of axes, and so the assignment of axes to links, with the shortest step.
/// @throws error(errc::invalid_argument) when degrees do not divide, or multiply to more devices than the cluster has
plan assign(training const& t, cluster const& c, degrees const& d, chosen_links const& told = {});
/// The degrees with the shortest step among all that use so many devices and fit into their memory.
/// @throws error(errc::invalid_argument) when none does, with the least memory that would do
plan search(training const& t, cluster const& c, int devices, chosen_links const& told = {});

/// The slowest link on which an axis exposes no more than a share of computation: the one whose speed it can live with.
/// @param compute seconds of a step in which a device computes
/// @param tolerated the share, such as 0.1
/// @return an index of `links`; nothing when none will do
std::optional<std::size_t> slowest_link(std::vector<device_link> const& links, demand const& d, int degree,
                                        double compute, double tolerated = 0.1);

/// The largest power of two to which an axis can be divided before what it exposes is more than a share of computation.
/// @param at `at(n)` gives a pair, the demand and the seconds of computation at degree n
template <class At>
int ceiling_on(device_link const& l, At at, double tolerated = 0.1) {
  for (int n = 1;; n *= 2) {
    auto const [needs, compute] = at(2 * n);
    if (2 * n > l.devices || exposed_time(needs, 2 * n, l.cost()) > tolerated * compute) return n;
  }
}

/// How far an axis can be divided.
struct ceiling {
  int degree;       ///< a power of two
  std::string why;  ///< why not twice as much, in words
};
/// The ceiling of an axis in a plan, all else as it is: what it exposes, and the time for which a pipeline stands idle,
/// must not be more than a share of computation.
ceiling ceiling_of(axis a, plan const& p, training const& t, cluster const& c, double tolerated = 0.1);

/// Something that a stage does.
struct activity {
  int stage, microbatch;
  bool forward;
  double begin, end;  ///< seconds from the start of the step
};
/// One forward, one backward, each stage as far ahead as its messages need to hide; `message` seconds from stage to
/// stage. By stage, in the order in which they are done.
std::vector<activity> timeline(int stages, int microbatches, double forward, double backward, double message);

inline void check(training const& t, cluster const& c) {
  auto const refuse = [](std::string const& words) { throw error(errc::invalid_argument, words); };
  auto const positive = [&](double x, char const* name) {
    if (!(x > 0 && std::isfinite(x))) refuse(detail::words("%s is %g: give a number above 0", name, x));
  };
  auto const count = [&](int n, char const* name) {  // twice as many still fit an int
    positive(n, name);
    if (n > 1'000'000'000) refuse(detail::words("%s is %d: give 1000000000 or less", name, n));
  };
  count(t.layers, "layers"), count(t.hidden, "hidden"), count(t.sequence, "sequence"), count(t.batch, "batch");
  count(t.microbatch, "microbatch"), count(t.blocks, "blocks");
  positive(t.parameters, "parameters"), positive(t.bytes, "bytes"), positive(c.flops, "flops");
  positive(c.memory, "memory");
  if (!(t.optimizer >= 0)) refuse(detail::words("optimizer is %g: give 0 or more bytes a parameter", t.optimizer));
  if (t.buckets < 0) refuse(detail::words("buckets is %d: give 0 or more", t.buckets));
  if (c.links.empty()) refuse("the cluster has no links: give at least one, such as node:400:2:8");
  for (std::size_t i = 0; i < c.links.size(); ++i) {
    device_link const& l = c.links[i];
    if (l.name.empty()) refuse("a link has no name");
    positive(l.bandwidth, ("the bandwidth of link " + l.name).c_str());
    count(l.devices, ("the number of devices of link " + l.name).c_str());
    if (!(l.latency >= 0 && std::isfinite(l.latency)))
      refuse(detail::words("the latency of link %s is %g: give 0 or more", l.name.c_str(), l.latency));
    for (std::size_t j = 0; j < i; ++j)
      if (c.links[j].name == l.name) refuse("two links have the name " + l.name);
    if (i > 0 && l.devices <= c.links[i - 1].devices)
      refuse(detail::words(
          "link %s joins %d devices, not more than %s, which joins %d: list links from the one that joins "
          "fewest to the one that joins all",
          l.name.c_str(), l.devices, c.links[i - 1].name.c_str(), c.links[i - 1].devices));
  }
}

inline std::string misfit(training const& t, degrees const& d) {
  for (std::size_t a = 0; a < axis_count; ++a)
    if (d.of[a] < 1)
      return detail::words("the degree of %s is %d: give 1 or more", to_string(static_cast<axis>(a)), d.of[a]);
  if (t.hidden % d[axis::tensor] != 0)
    return detail::words("%d hidden values do not divide by tensor %d", t.hidden, d[axis::tensor]);
  if (t.layers % d[axis::pipeline] != 0)
    return detail::words("%d layers do not divide by pipeline %d", t.layers, d[axis::pipeline]);
  std::int64_t const replicas = std::int64_t{d[axis::data]} * d[axis::state];
  if (t.batch % replicas != 0 || t.batch / replicas % t.microbatch != 0)
    return detail::words("a batch of %d does not divide by data %d x state %d x microbatch %d", t.batch, d[axis::data],
                         d[axis::state], t.microbatch);
  return {};
}

inline std::optional<plan> divide(training const& t, cluster const& c, degrees const& d,
                                  std::array<axis, axis_count> const& order, chosen_links const& told) {
  plan p{d, {}, work_of(t, d, c.flops), 0, 0, 0, 0, {}, false};
  p.compute = p.each.compute();
  p.idle = idle_fraction(d[axis::pipeline], p.each.microbatches);
  p.step = p.compute / (1 - p.idle);
  std::int64_t reach = 1;
  for (axis a : order) {
    reach *= d[a];
    std::size_t link = 0;
    while (link < c.links.size() && c.links[link].devices < reach) ++link;
    if (auto const wanted = told[static_cast<std::size_t>(a)]) {
      if (*wanted < link) return std::nullopt;
      link = *wanted;
    }
    if (link == c.links.size()) return std::nullopt;
    demand const needs = demand_of(a, t, d, p.each);
    link_cost const cost = c.links[link].cost();
    p.axes.push_back({a, d[a], reach, link, needs, busy_time(needs, d[a], cost), exposed_time(needs, d[a], cost)});
    // What a layer waits for lengthens each unit of the pipeline, idle ones too.
    p.step += p.axes.back().exposed / (a == axis::tensor ? 1 - p.idle : 1);
  }
  for (std::size_t link = 0; link < c.links.size(); ++link) {
    double hides = 0;
    for (axis_plan const& a : p.axes) {
      demand const& n = a.needs;
      double const one = message_time(n, a.degree, c.links[link].cost());
      if (a.link == link && n.hideable > 0) hides += n.hideable * one - (a.exposed - n.unhidden * one);
    }
    if (hides > p.compute) p.contended += hides - p.compute;
  }
  p.step += p.contended;
  p.memory = memory_of(t, d, p.each);
  p.fits = p.memory.total() <= c.memory;
  return p;
}

inline plan assign(training const& t, cluster const& c, degrees const& d, chosen_links const& told) {
  if (std::string const why = misfit(t, d); !why.empty()) throw error(errc::invalid_argument, why);
  if (d.product() > c.links.back().devices)
    throw error(
        errc::invalid_argument,
        detail::words("tensor %d x state %d x pipeline %d x data %d are %.0f devices, but link %s, the last, joins %d",
                      d.of[0], d.of[1], d.of[2], d.of[3], d.product(), c.links.back().name.c_str(),
                      c.links.back().devices));
  std::array<axis, axis_count> order{axis::tensor, axis::state, axis::pipeline, axis::data};
  std::optional<plan> best;
  do {
    auto const p = divide(t, c, d, order, told);
    if (p && (!best || p->step < best->step)) best = p;
  } while (std::next_permutation(order.begin(), order.end()));
  if (!best)
    throw error(errc::invalid_argument, "no order of axes lets each reach all of its devices over the link it is told");
  return *best;
}

inline plan search(training const& t, cluster const& c, int devices, chosen_links const& told) {
  device_link const& all = c.links.back();
  if (devices < 1 || devices > all.devices)
    throw error(errc::invalid_argument, detail::words("devices is %d: give 1 to %d, which link %s, the last, joins",
                                                      devices, all.devices, all.name.c_str()));
  std::optional<plan> best, smallest;
  degrees d;
  for (int tensor = 1; tensor <= std::min(devices, t.hidden); ++tensor) {
    if (devices % tensor != 0) continue;
    for (int state = 1; state <= std::min(devices / tensor, t.batch); ++state) {
      if (devices / tensor % state != 0) continue;
      for (int pipeline = 1, rest = devices / tensor / state; pipeline <= std::min(rest, t.layers); ++pipeline) {
        if (rest % pipeline != 0) continue;
        d.of = {tensor, state, pipeline, rest / pipeline};
        if (!misfit(t, d).empty()) continue;
        plan const p = assign(t, c, d, told);
        if (p.fits && (!best || p.step < best->step)) best = p;
        if (!smallest || p.memory.total() < smallest->memory.total()) smallest = p;
      }
    }
  }
  if (best) return *best;
  if (!smallest)
    throw error(
        errc::invalid_argument,
        detail::words("no degrees multiply to %d devices and divide %d layers, %d hidden values and a batch of %d",
                      devices, t.layers, t.hidden, t.batch));
  throw error(errc::invalid_argument,
              detail::words("%d devices of %.3g GB are not enough: each would need %.3g GB at least", devices,
                            c.memory / 1e9, smallest->memory.total() / 1e9));
}

inline std::optional<std::size_t> slowest_link(std::vector<device_link> const& links, demand const& d, int degree,
                                               double compute, double tolerated) {
  std::optional<std::size_t> slowest;
  for (std::size_t i = 0; i < links.size(); ++i)
    if (exposed_time(d, degree, links[i].cost()) <= tolerated * compute &&
        (!slowest || links[i].bandwidth < links[*slowest].bandwidth))
      slowest = i;
  return slowest;
}

inline ceiling ceiling_of(axis a, plan const& p, training const& t, cluster const& c, double tolerated) {
  std::int64_t const inside = p.of(a).reach / p.by[a];
  auto const percent = [](double share) { return detail::words("%.3g %%", 100 * share); };
  std::size_t link = 0;
  while (link + 1 < c.links.size() && c.links[link].devices < inside) ++link;
  for (ceiling best{1, {}};; best.degree *= 2) {
    degrees d = p.by;
    d[a] = 2 * best.degree;
    if (best.why = misfit(t, d); !best.why.empty()) return best;
    std::int64_t const reach = inside * d[a];
    while (link < c.links.size() && c.links[link].devices < reach) ++link;
    if (link == c.links.size()) {
      best.why = "no link joins " + std::to_string(reach) + " devices";
      return best;
    }
    work const w = work_of(t, d, c.flops);
    double const idle = idle_fraction(d[axis::pipeline], w.microbatches);
    double const share = exposed_time(demand_of(a, t, d, w), d[a], c.links[link].cost()) / w.compute();
    if (a == axis::pipeline && idle > tolerated)
      best.why = "idle for " + percent(idle) + " of the time";
    else if (share > tolerated)
      best.why = percent(share) + " of computation would be added, over " + c.links[link].name;
    if (!best.why.empty()) return best;
  }
}

inline std::vector<activity> timeline(int stages, int microbatches, double forward, double backward, double message) {
  struct stage {
    int forwards = 0, backwards = 0;
    double free = 0;
  };
  auto const p = static_cast<std::size_t>(stages), m = static_cast<std::size_t>(microbatches);
  std::vector<stage> at(p);
  std::vector<std::vector<double>> forward_end(p, std::vector<double>(m, -1)), backward_end = forward_end;
  std::vector<std::vector<activity>> done(p);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < p; ++s)
      for (;;) {
        stage& mine = at[s];
        int const ahead = std::min(microbatches, (message > 0 ? 2 : 1) * (stages - 1 - static_cast<int>(s)) + 1);
        bool const goes_forward = mine.forwards < microbatches && mine.forwards - mine.backwards < ahead;
        auto const i = static_cast<std::size_t>(goes_forward ? mine.forwards : mine.backwards);
        if (i == m) break;
        double given = 0;
        if (goes_forward && s > 0) given = forward_end[s - 1][i] < 0 ? -1 : forward_end[s - 1][i] + message;
        if (!goes_forward && s + 1 < p) given = backward_end[s + 1][i] < 0 ? -1 : backward_end[s + 1][i] + message;
        if (given < 0) break;
        double const begin = std::max(mine.free, given);
        mine.free = begin + (goes_forward ? forward : backward);
        (goes_forward ? forward_end : backward_end)[s][i] = mine.free;
        ++(goes_forward ? mine.forwards : mine.backwards);
        done[s].push_back({static_cast<int>(s), static_cast<int>(i), goes_forward, begin, mine.free});
        moved = true;
      }
  }
  std::vector<activity> all;
  for (auto const& one : done) all.insert(all.end(), one.begin(), one.end());
  return all;
}

}  // namespace ringlet::planning
