// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace perf {

/// A line of a plot: bandwidth over size.
struct curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< bytes, GB/s
};

/// "64 KiB" for 65536.
inline std::string size_text(double bytes) {
  char const* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.4g %s", bytes, units[unit]);
  return text;
}

/// Draws curves as SVG: size on a logarithmic axis, bandwidth from zero.
inline void plot(std::ostream& to, std::string const& title, std::string const& subtitle,
                 std::vector<curve> const& curves) {
  constexpr double width = 820, height = 460, left = 74, right = 24, top = 92, bottom = 62;
  constexpr char const* colors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};

  double least = 0, most = 0, best = 0;  // log2 of bytes; GB/s
  bool any = false;
  for (auto const& c : curves)
    for (auto [bytes, rate] : c.points) {
      if (bytes < 1) continue;
      double const x = std::log2(bytes);
      least = any ? std::min(least, x) : x;
      most = any ? std::max(most, x) : x;
      best = std::max(best, rate);
      any = true;
    }
  if (most - least < 1) least -= 0.5, most += 0.5;
  // About five ticks, 1, 2 or 5 times a power of ten apart.
  double const rough = std::max(best, 1e-3) / 5, power = std::pow(10, std::floor(std::log10(rough)));
  double const tick = power * (rough <= power ? 1 : rough <= 2 * power ? 2 : rough <= 5 * power ? 5 : 10);
  double const highest = tick * std::ceil(std::max(best, 1e-3) / tick);
  auto const at_x = [&](double log2) { return left + (log2 - least) / (most - least) * (width - left - right); };
  auto const at_y = [&](double rate) { return height - bottom - rate / highest * (height - top - bottom); };

  auto const print = [&](char const* format, auto... args) {
    char line[512];
    std::snprintf(line, sizeof line, format, args...);
    to << line;
  };
  auto const text = [&](double x, double y, char const* more, std::string const& words) {
    print("<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, more);
    for (char const c : words) to << (c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c));
    to << "</text>\n";
  };

  print(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\" "
      "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" fill=\"#333\">\n"
      "<rect width=\"%g\" height=\"%g\" fill=\"white\"/>\n",
      width, height, width, height, width, height);
  text(left, 30, "font-size=\"18\" font-weight=\"bold\" fill=\"#111\"", title);
  text(left, 50, "fill=\"#666\"", subtitle);

  for (int i = 0; i <= std::lround(highest / tick); ++i) {
    double const y = at_y(i * tick);
    print("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", left, width - right, y, y,
          i == 0 ? "#888" : "#e4e4e4");
    print("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n", left - 8, y + 4.5, i * tick);
  }
  int const apart = std::max(1, static_cast<int>(std::ceil((most - least) / 9)));
  for (int log2 = static_cast<int>(std::ceil(least)); log2 <= most; log2 += apart) {
    double const x = at_x(log2);
    print("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#888\"/>\n", x, x, height - bottom,
          height - bottom + 5);
    text(x, height - bottom + 21, "text-anchor=\"middle\"", size_text(std::exp2(log2)));
  }
  text((left + width - right) / 2, height - 14, "text-anchor=\"middle\"", "size");
  print("<text transform=\"translate(20 %.1f) rotate(-90)\" text-anchor=\"middle\">bus bandwidth (GB/s)</text>\n",
        (top + height - bottom) / 2);

  double legend = left;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    char const* const color = colors[i % std::size(colors)];
    to << "<polyline fill=\"none\" stroke-width=\"2\" stroke-linejoin=\"round\" stroke=\"" << color << "\" points=\"";
    for (auto [bytes, rate] : curves[i].points)
      if (bytes >= 1) print("%.1f,%.1f ", at_x(std::log2(bytes)), at_y(rate));
    to << "\"/>\n";
    for (auto [bytes, rate] : curves[i].points)
      if (bytes >= 1)
        print("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>%s: %.2f GB/s</title></circle>\n",
              at_x(std::log2(bytes)), at_y(rate), color, size_text(bytes).c_str(), rate);
    if (legend > width - 140) continue;  // no room left: hovering still tells
    print("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"72\" y2=\"72\" stroke=\"%s\" stroke-width=\"3\"/>\n", legend, legend + 18,
          color);
    text(legend + 24, 76.5, "", curves[i].name);
    legend += 48 + 7.2 * static_cast<double>(curves[i].name.size());
  }
  to << "</svg>\n";
}

}  // namespace perf
