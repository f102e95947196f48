// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/schedule.hpp"

namespace ringlet {

class drawing;

/// Draws a schedule, one's own too: `std::cout << draw<ring_schedule<collective::all_reduce>>(4).text()`.
/// @tparam S the schedule
/// @param size how many ranks, at least 1
template <schedule S>
drawing draw(int size);

/// A schedule as a picture: a row a rank, a column a step, and in each place the chunk that the rank then works on.
class drawing {
 public:
  /// For a terminal: a line a rank. `2:3` is chunk 2 with the contributions of 3 ranks, `*` says that it is kept, `>`
  /// that it is sent on. A schedule that is wrong shows `?` where a contribution comes in twice or something incomplete
  /// is kept, and `-` for a value that never comes.
  std::string text() const;

  /// For a page: a whole SVG file with neither scripts nor fonts of its own, readable for up to about 16 ranks. Where a
  /// schedule is wrong, the chunk has a red border.
  std::string svg() const;

 private:
  template <schedule S>
  friend drawing draw(int size);

  struct cell {
    step what;
    std::vector<int> from = {};  // how often each rank has contributed; empty if the value never comes
    bool arrives = false;        // whether the next rank receives what is sent here,
    std::size_t to = 0;          // and at which step
  };
  struct canvas;

  drawing(collective does, std::vector<std::vector<cell>> rows) : does_(does), rows_(std::move(rows)) { follow(); }

  // Follows the values from rank to rank.
  void follow();
  int size() const { return static_cast<int>(rows_.size()); }
  int whole() const { return reduces(does_) ? size() : 1; }  // contributions of a value that is final
  std::size_t columns() const;
  std::string title() const;
  static int contributions(cell const& c) { return std::accumulate(c.from.begin(), c.from.end(), 0); }
  bool wrong(cell const& c) const {
    bool const twice = std::any_of(c.from.begin(), c.from.end(), [](int times) { return times > 1; });
    return c.from.empty() || twice || (c.what.does.keep && contributions(c) != whole());
  }

  collective does_;
  std::vector<std::vector<cell>> rows_;
};

template <schedule S>
drawing draw(int size) {
  std::vector<std::vector<drawing::cell>> rows(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    S const s{rank, size};
    for (int k = 0; k < s.steps(); ++k) rows[static_cast<std::size_t>(rank)].push_back({s[k]});
  }
  return drawing(S::does, std::move(rows));
}

inline void drawing::follow() {
  std::size_t const n = rows_.size();
  // The j-th value that a rank receives is the j-th that the previous one sends.
  for (std::size_t r = 0; r < n; ++r) {
    auto& next = rows_[(r + 1) % n];
    std::size_t to = 0;
    for (cell& c : rows_[r]) {
      if (!c.what.does.send) continue;
      while (to < next.size() && !next[to].what.does.receive) ++to;
      c.arrives = to < next.size();
      if (c.arrives) c.to = to++;
    }
  }
  // A value starts where nothing is received, and grows on its way. Once more round the ring while anything is new.
  auto give = [](std::size_t rank, cell& c, std::vector<int> from) {
    if (c.what.does.reduce || !c.what.does.receive) ++from[rank];
    c.from = from;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t r = 0; r < n; ++r)
      for (cell& c : rows_[r]) {
        if (c.from.empty() && !c.what.does.receive) give(r, c, std::vector<int>(n)), changed = true;
        if (c.from.empty() || !c.arrives) continue;
        std::size_t const next = (r + 1) % n;
        if (cell& there = rows_[next][c.to]; there.from.empty()) give(next, there, c.from), changed = true;
      }
  }
}

inline std::size_t drawing::columns() const {
  std::size_t most = 0;
  for (auto const& row : rows_) most = row.size() > most ? row.size() : most;
  return most;
}
inline std::string drawing::title() const {
  return std::string(to_string(does_)) + " among " + std::to_string(size()) + (size() == 1 ? " rank" : " ranks");
}

inline std::string drawing::text() const {
  std::vector<std::vector<std::string>> words(rows_.size());
  std::size_t width = std::string("step ").size() + std::to_string(columns()).size();
  for (std::size_t r = 0; r < rows_.size(); ++r)
    for (cell const& c : rows_[r]) {
      std::string w = std::to_string(c.what.chunk) + ":";
      w += c.from.empty() ? "-" : std::to_string(contributions(c)) + (wrong(c) ? "?" : "");
      w += std::string(c.what.does.keep ? "*" : "") + (c.what.does.send ? ">" : "");
      width = w.size() > width ? w.size() : width;
      words[r].push_back(w);
    }
  auto padded = [](std::string w, std::size_t to) { return w.append(to > w.size() ? to - w.size() : 0, ' ') + "  "; };
  auto trimmed = [](std::string const& line) { return line.substr(0, line.find_last_not_of(' ') + 1) + "\n"; };
  std::size_t const head = std::string("rank ").size() + std::to_string(size()).size();
  std::string line = padded("", head), all = title() + "   (chunk:contributions, * kept, > sent on)\n";
  for (std::size_t k = 0; k < columns(); ++k) line += padded("step " + std::to_string(k), width);
  all += trimmed(line);
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    line = padded("rank " + std::to_string(r), head);
    for (std::string const& w : words[r]) line += padded(w, width);
    all += trimmed(line);
  }
  return all;
}

// Where things stand, in pixels, and the pieces of the picture. Everything about a chunk has its hue.
struct drawing::canvas {
  static constexpr int tile = 56, left = 84, top = 88, column = 100, row = 106, strip = 8, legend_column = 320;
  drawing const& d;
  std::string out;

  static int x(std::size_t k) { return left + static_cast<int>(k) * column; }
  static int y(std::size_t r) { return top + static_cast<int>(r) * row; }
  std::string ink(int chunk, int saturation, int light) const {
    return "\"hsl(" + std::to_string((215 + 360 * chunk / d.size()) % 360) + "," + std::to_string(saturation) + "%," +
           std::to_string(light) + "%)\"";
  }
  static std::string put(char const* name, int value) {
    return std::string(" ") + name + "=\"" + std::to_string(value) + "\"";
  }

  void words(int x, int y, char const* style, std::string const& w) {
    out += "<text" + put("x", x) + put("y", y) + " class=\"" + style + "\">" + w + "</text>\n";
  }
  void box(int x, int y, int w, int h, int round, std::string const& rest) {
    out += "<rect" + put("x", x) + put("y", y) + put("width", w) + put("height", h) + put("rx", round) + " " + rest +
           "/>\n";
  }
  // A chunk, filled from below as contributions come in.
  void chunk(int chunk, int filled, bool kept, bool wrong, std::string const& label) {
    int const high = filled >= d.whole() ? tile : tile * filled / d.whole();
    box(0, 0, tile, tile, 8, "fill=" + ink(chunk, 70, 95));
    box(0, tile - high, tile, high, 0, "clip-path=\"url(#tile)\" fill=" + ink(chunk, 70, 76));
    box(0, 0, tile, tile, 8,
        std::string("fill=\"none\" stroke-width=\"") + (kept || wrong ? "3" : "1") +
            "\" stroke=" + (wrong ? "\"red\" stroke-dasharray=\"5 3\"" : ink(chunk, 50, kept ? 42 : 65)));
    words(tile / 2, tile / 2 + 9, "chunk", label);
    if (kept)
      out += "<path d=\"M42 10l4 4 7-8\" fill=\"none\" stroke-width=\"2.5\" stroke=" + ink(chunk, 60, 30) + "/>\n";
  }
  // The places of an output, the chunks that it holds in colour.
  void output(std::vector<bool> const& holds) {
    int const n = d.size();
    for (int c = 0; c < n; ++c) {
      int const begin = c * tile / n, end = (c + 1) * tile / n;
      bool const there = holds[static_cast<std::size_t>(c)];
      box(begin, tile + 6, end - begin - 1, strip, 1, "fill=" + (there ? ink(c, 60, 55) : std::string("\"#e6e8ec\"")));
    }
  }
  void arrow(int chunk, int x0, int y0, int x1, int y1) {
    auto at = [](int a, int b) { return std::to_string(a) + " " + std::to_string(b); };
    int const bend = x1 > x0 ? (x1 - x0) * 3 / 4 : column / 2, tip = x1 - 6;
    out += "<path fill=\"none\" stroke-width=\"2\" stroke=" + ink(chunk, 55, 55) + " d=\"M" + at(x0, y0) + "C" +
           at(x0 + bend, y0) + " " + at(tip - bend, y1) + " " + at(tip, y1) + "\"/>\n<path fill=" + ink(chunk, 55, 55) +
           " d=\"M" + at(x1, y1) + "l-8 -5v10z\"/>\n";
  }
  void move(int x, int y, std::string const& more = "") {
    out += "<g transform=\"translate(" + std::to_string(x) + "," + std::to_string(y) + ")" + more + "\">\n";
  }
  void back() { out += "</g>\n"; }

  void rank(std::size_t r, std::size_t at) {
    words(left - 24, y(at) + tile / 2 + 5, "rank", "rank " + std::to_string(r));
    std::vector<bool> holds(d.rows_.size());
    for (std::size_t k = 0; k < d.rows_[r].size(); ++k) {
      cell const& c = d.rows_[r][k];
      if (c.what.does.keep && c.what.chunk >= 0 && c.what.chunk < d.size())
        holds[static_cast<std::size_t>(c.what.chunk)] = true;
      move(x(k), y(at));
      chunk(c.what.chunk, contributions(c), c.what.does.keep, d.wrong(c), std::to_string(c.what.chunk));
      output(holds);
      back();
    }
  }
  void arrows(std::size_t r) {
    for (std::size_t k = 0; k < d.rows_[r].size(); ++k)
      if (cell const& c = d.rows_[r][k]; c.what.does.send && c.arrives)
        arrow(c.what.chunk, x(k) + tile + 2, y(r) + tile / 2, x(c.to) - 3, y(r + 1) + tile / 2);
  }
  // How to read it, below.
  void legend(int y) {
    auto sign = [&](int place, char const* says) {
      int const left_edge = left + place % 2 * legend_column, upper_edge = y + place / 2 * 44;
      words(left_edge + 48, upper_edge + 21, "note", says);
      move(left_edge, upper_edge, " scale(.58)");
    };
    std::vector<bool> some(d.rows_.size());
    some[0] = true;
    sign(0, "a chunk, filled as ranks add their part"), chunk(0, (d.whole() + 1) / 2, false, false, "c"), back();
    sign(1, "it is complete, and kept"), chunk(0, d.whole(), true, false, "c"), back();
    sign(2, "it goes to the right-hand neighbour"), arrow(0, 0, 10, tile, tile - 10), back();
    sign(3, "chunks of the result that a rank has"), move(0, -38), output(some), back(), back();
  }
};

inline std::string drawing::svg() const {
  canvas c{*this, {}};
  std::size_t const n = rows_.size(), wide = columns();
  bool const again = n > 1;  // the ring closes: below the last rank stands the first once more
  int const foot = canvas::y(n + (again ? 1 : 0));
  int const grid = canvas::x(wide) - canvas::column + canvas::tile + 40, height = foot + 96;
  int const width = std::max(grid, canvas::left + 2 * canvas::legend_column);
  c.out = "<svg xmlns=\"http://www.w3.org/2000/svg\"" + c.put("width", width) + c.put("height", height) +
          " viewBox=\"0 0 " + std::to_string(width) + " " + std::to_string(height) + R"(">
<style>
text { font-family: system-ui, 'Helvetica Neue', Arial, sans-serif; fill: #1f2937 }
.title { font-size: 20px; font-weight: 600 }
.chunk { font-size: 24px; font-weight: 600; text-anchor: middle }
.step { font-size: 13px; text-anchor: middle; fill: #6b7280 }
.rank { font-size: 14px; text-anchor: end }
.note { font-size: 13px; fill: #4b5563 }
</style>
<clipPath id="tile"><rect width="56" height="56" rx="8"/></clipPath>
)";
  c.box(0, 0, width, height, 10, "fill=\"#fcfcfd\"");
  c.words(canvas::left, 40, "title", title());
  for (std::size_t k = 0; k < wide; ++k)
    c.words(canvas::x(k) + canvas::tile / 2, canvas::top - 14, "step", "step " + std::to_string(k));
  for (std::size_t r = 0; r < n && again; ++r) c.arrows(r);
  for (std::size_t r = 0; r < n; ++r) c.rank(r, r);
  if (again) {
    c.out += "<g opacity=\"0.4\">\n";
    c.rank(0, n);
    c.out += "</g>\n";
  }
  c.legend(foot);
  return c.out + "</svg>\n";
}

}  // namespace ringlet
