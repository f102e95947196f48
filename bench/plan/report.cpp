// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "report.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

namespace planner {
namespace {

using namespace ringlet::planning;

// A number with three digits: "0.123", "12.3", "1230".
std::string short_number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, x >= 99.95 ? "%.0f" : x >= 9.995 ? "%.1f" : x == 0 ? "%.0f" : "%.2f", x);
  return text;
}
std::string seconds(double s) { return s < 1 ? short_number(s * 1e3) + " ms" : short_number(s) + " s"; }

}  // namespace

void print(request const& r, plan const& p) {
  auto const& t = r.model;
  auto const& links = r.machines.links;
  std::printf("%.4g G parameters in %d layers of %d; %d sequences of %d tokens a step, %d at once\n",
              t.parameters / 1e9, t.layers, t.hidden, t.batch, t.sequence, t.microbatch);
  std::printf("%lld devices of %g Tflop/s and %g GB", static_cast<long long>(p.by.product()), r.machines.flops / 1e12,
              r.machines.memory / 1e9);
  for (auto const& l : links)
    std::printf("; %s: %d devices, %g GB/s, %g us", l.name.c_str(), l.devices, l.bandwidth / 1e9, l.latency * 1e6);

  std::printf("\n\n%-9s %6s  %-10s %9s %8s  %-15s", "axis", "degree", "over", "messages", "MB each", "exchange");
  for (auto const& l : links) std::printf(" %10s", ("on " + l.name).c_str());
  std::printf(" %9s %9s %7s  %s\n", "hides", "adds", "adds", "most, and why");
  std::printf("%-9s %6s  %-10s %9s %8s  %-15s", "", "", "", "a step", "", "");
  for (std::size_t i = 0; i < links.size(); ++i) std::printf(" %10s", "ms");
  std::printf(" %9s %9s %7s\n", "ms", "ms", "%");
  for (axis_plan const& a : p.axes) {
    ceiling const most = ceiling_of(a.which, p, t, r.machines, r.tolerated);
    std::printf("%-9s %6d  ", to_string(a.which), a.degree);
    if (a.degree == 1) {
      std::printf("%-10s %9s %8s  %-15s", "-", "-", "-", "-");
      for (std::size_t i = 0; i < links.size() + 3; ++i)
        std::printf(i < links.size() ? " %10s" : i + 1 < links.size() + 3 ? " %9s" : " %7s", "-");
    } else {
      std::printf("%-10s %9.0f %8s  %-15s", links[a.link].name.c_str(), a.needs.messages,
                  short_number(a.needs.bytes / 1e6).c_str(), to_string(a.needs.how));
      for (auto const& l : links)
        std::printf(" %10s", short_number(busy_time(a.needs, a.degree, l.cost()) * 1e3).c_str());
      std::printf(" %9s %9s %7s", short_number((a.busy > a.exposed ? a.busy - a.exposed : 0) * 1e3).c_str(),
                  short_number(a.exposed * 1e3).c_str(), short_number(100 * a.exposed / p.compute).c_str());
    }
    std::printf("  %d: %s\n", most.degree, most.why.c_str());
  }
  int const stages = p.by[axis::pipeline];
  double const m = p.each.microbatches, tensor = p.of(axis::tensor).exposed;
  std::printf("\nstep    %s = computation %s", seconds(p.step).c_str(), seconds(p.compute).c_str());
  if (stages > 1)
    std::printf(" + idle %s (%.1f %%: %d of %.0f + %d units)",
                seconds((p.compute + tensor) * p.idle / (1 - p.idle)).c_str(), 100 * p.idle, stages - 1, m, stages - 1);
  for (axis_plan const& a : p.axes)
    if (a.exposed > 0) std::printf(" + %s %s", to_string(a.which), seconds(a.exposed).c_str());
  if (p.contended > 0) std::printf(" + links shared %s", seconds(p.contended).c_str());
  std::printf("\nspeed   %.4g tokens a second, %.1f %% of what the devices do\n",
              static_cast<double>(t.batch) * t.sequence / p.step, 100 * p.compute / p.step);
  std::printf(
      "memory  %.3g of %g GB%s = weights %.3g + gradients %.3g + optimizer %.3g + gathered %.3g + activations %.3g\n",
      p.memory.total() / 1e9, r.machines.memory / 1e9, p.fits ? "" : ", WHICH DOES NOT FIT", p.memory.weights / 1e9,
      p.memory.gradients / 1e9, p.memory.optimizer / 1e9, p.memory.gathered / 1e9, p.memory.activations / 1e9);
}

void write_json(std::ostream& to, request const& r, plan const& p) {
  using nlohmann::ordered_json;
  auto axes = ordered_json::array();
  for (axis_plan const& a : p.axes) {
    ceiling const most = ceiling_of(a.which, p, r.model, r.machines, r.tolerated);
    ordered_json on;
    for (auto const& l : r.machines.links) on[l.name] = busy_time(a.needs, a.degree, l.cost());
    axes.push_back({{"axis", to_string(a.which)},
                    {"degree", a.degree},
                    {"link", r.machines.links[a.link].name},
                    {"messages", a.needs.messages},
                    {"bytes", a.needs.bytes},
                    {"exchange", to_string(a.needs.how)},
                    {"seconds_on", on},
                    {"exposed", a.exposed},
                    {"most", most.degree},
                    {"why", most.why}});
  }
  ordered_json const whole{{"devices", static_cast<long long>(p.by.product())},
                           {"axes", axes},
                           {"microbatches", p.each.microbatches},
                           {"compute", p.compute},
                           {"idle_fraction", p.idle},
                           {"contended", p.contended},
                           {"step", p.step},
                           {"memory",
                            {{"weights", p.memory.weights},
                             {"gradients", p.memory.gradients},
                             {"optimizer", p.memory.optimizer},
                             {"gathered", p.memory.gathered},
                             {"activations", p.memory.activations},
                             {"fits", p.fits}}}};
  to << whole.dump(2) << '\n';
}

}  // namespace planner
