// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "timeline.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace planner {
namespace {

using namespace ringlet::planning;

struct canvas {
  static constexpr double width = 980, left = 84, right = 24, top = 92, row = 46, box = 26, strip = 7;
  std::ostream& to;
  double seconds;  // from left to right

  double x(double at) const { return left + at / seconds * (width - left - right); }
  template <class... A>
  void print(char const* format, A... args) {
    char line[400];
    std::snprintf(line, sizeof line, format, args...);
    to << line;
  }
  void text(double x, double y, char const* more, std::string const& words) {
    print("<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, more, words.c_str());
  }
  void bar(double begin, double end, double y, double height, char const* style) {
    if (end <= begin) return;
    print("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%g\" class=\"%s\"/>\n", x(begin), y,
          std::max(x(end) - x(begin), 0.4), height, style);
  }
};

constexpr int most_drawn = 16;  // microbatches: more would be lines without a number

}  // namespace

void draw(std::ostream& to, request const& r, plan const& p) {
  int const stages = p.by[axis::pipeline], all = static_cast<int>(p.each.microbatches);
  int const m = std::min(all, std::max(most_drawn, 2 * stages));
  auto const message = [&](axis a) {
    axis_plan const& its = p.of(a);
    return message_time(its.needs, its.degree, r.machines.links[its.link].cost());
  };
  // What a layer waits for is part of its forward and backward units.
  double const waits = p.of(axis::tensor).exposed / p.each.microbatches / 2;
  double const forward = p.each.forward + waits, backward = p.each.backward + waits;
  // The first weights are gathered before anything, the last gradients exchanged after everything.
  double const first = p.of(axis::state).needs.messages > 0 ? message(axis::state) : 0;
  double const last = std::max(0.0, p.of(axis::state).exposed - first) + p.of(axis::data).exposed;
  auto const work = timeline(stages, m, forward, backward, message(axis::pipeline));
  double end = 0;
  for (activity const& a : work) end = std::max(end, a.end);

  double const height = canvas::top + canvas::row * stages + 74;
  canvas c{to, first + end + last};
  c.print(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\" "
      "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" fill=\"#333\">\n",
      canvas::width, height, canvas::width, height);
  to << "<style>.f{fill:#56b4e9}.b{fill:#009e73}.w{fill:#d55e00}.s{fill:#e69f00}.d{fill:#cc79a7}.i{fill:#f0f1f3}"
        ".n{font-size:11px;fill:#fff;text-anchor:middle}</style>\n";
  c.print("<rect width=\"%g\" height=\"%g\" fill=\"white\"/>\n", canvas::width, height);
  char words[200];
  std::snprintf(words, sizeof words, "One step: tensor %d x state %d x pipeline %d x data %d", p.by[axis::tensor],
                p.by[axis::state], p.by[axis::pipeline], p.by[axis::data]);
  c.text(canvas::left, 32, "font-size=\"18\" font-weight=\"bold\" fill=\"#111\"", words);
  std::snprintf(
      words, sizeof words, "%.3g s, of which %.3g s computation; idle for %.1f %% of the time%s", p.step, p.compute,
      100 * p.idle,
      m < all ? (", " + std::to_string(m) + " of " + std::to_string(all) + " microbatches drawn").c_str() : "");
  c.text(canvas::left, 54, "fill=\"#666\"", words);

  for (int s = 0; s < stages; ++s) {
    double const y = canvas::top + canvas::row * s;
    c.text(canvas::left - 10, y + 18, "text-anchor=\"end\"", "stage " + std::to_string(s));
    c.bar(0, c.seconds, y, canvas::box, "i");
    c.bar(0, first, y, canvas::box, "s");
    double done = 0;
    for (activity const& a : work) {
      if (a.stage != s) continue;
      double const begin = first + a.begin, over = first + a.end;
      c.bar(begin, over - waits, y, canvas::box, a.forward ? "f" : "b");
      c.bar(over - waits, over, y, canvas::box, "w");
      if (c.x(over) - c.x(begin) > 14)
        c.text((c.x(begin) + c.x(over)) / 2, y + 17, "class=\"n\"", std::to_string(a.microbatch + 1));
      done = std::max(done, over);
    }
    c.bar(done, done + last - p.of(axis::data).exposed, y, canvas::box, "s");
    c.bar(done + last - p.of(axis::data).exposed, done + last, y, canvas::box, "d");
    // Beneath: what travels meanwhile.
    axis_plan const &state = p.of(axis::state), &data = p.of(axis::data);
    double const share = static_cast<double>(m) / all;  // of the step that is drawn
    c.bar(first, first + std::max(0.0, state.busy - state.exposed) * share, y + canvas::box + 2, canvas::strip, "s");
    c.bar(done - std::max(0.0, data.busy - data.exposed), done, y + canvas::box + 2, canvas::strip, "d");
  }
  double const y = canvas::top + canvas::row * stages + 16;
  c.print("<line x1=\"%g\" x2=\"%g\" y1=\"%g\" y2=\"%g\" stroke=\"#888\"/>\n", canvas::left,
          canvas::width - canvas::right, y, y);
  for (int i = 0; i <= 4; ++i) {
    std::snprintf(words, sizeof words, "%.3g s", c.seconds * i / 4);
    c.text(c.x(c.seconds * i / 4), y + 18,
           i == 0   ? ""
           : i == 4 ? "text-anchor=\"end\""
                    : "text-anchor=\"middle\"",
           words);
  }
  double at = canvas::left;
  for (auto const& [style, name] : {std::pair("f", "forward"),
                                    {"b", "backward"},
                                    {"w", "tensor: the layer waits"},
                                    {"s", "state: weights, gradients"},
                                    {"d", "data: gradients"},
                                    {"i", "idle"}}) {
    c.print("<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" class=\"%s\"/>\n", at, y + 32, style);
    c.text(at + 17, y + 42.5, "", name);
    at += 40 + 6.6 * static_cast<double>(std::string(name).size());
  }
  to << "</svg>\n";
}

}  // namespace planner
