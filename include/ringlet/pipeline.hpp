// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ringlet {

/// What a stage of a pipeline does in one unit of time: a microbatch's way forward through its layers, or back.
struct unit_of_work {
  enum class direction : std::uint8_t { forward, backward };
  direction way;
  int microbatch;

  friend constexpr bool operator==(unit_of_work, unit_of_work) = default;
};

/// In which order a stage does its work, as a closed form: a value without memory, like a schedule.
///
/// Contract. `O(stage, stages, microbatches)` is one stage's order. `o[k]`, for `0 <= k < 2 * microbatches`, is the
/// k-th thing that it does. What it needs for it comes from the stage before (forward) or after it (backward). Whether
/// that works out is what `proved_pipeline<O>(stages, microbatches)` answers.
template <class O>
concept pipeline_order = requires(O const o, int k) {
  O{k, k, k};
  { o[k] } -> std::same_as<unit_of_work>;
};

/// All forward, then all backward (Huang et al., "GPipe", 2019): simple, but the first backward step comes when all
/// microbatches are in flight, and each stage holds the activations of all of them.
struct all_forward_then_backward {
  int stage, stages, microbatches;

  constexpr unit_of_work operator[](int k) const {
    using enum unit_of_work::direction;
    return k < microbatches ? unit_of_work{forward, k} : unit_of_work{backward, k - microbatches};
  }
};

/// One forward, one backward (Narayanan et al., "PipeDream", 2019, and "Efficient large-scale language model training",
/// 2021): a stage starts with as many forward steps as there are stages behind it, then goes forward and back by turns,
/// and ends with what is left to go back. It takes as long, but a stage never holds more microbatches than there are
/// stages from it on.
struct one_forward_one_backward {
  int stage, stages, microbatches;

  constexpr unit_of_work operator[](int k) const {
    using enum unit_of_work::direction;
    int const behind = stages - 1 - stage, first = behind < microbatches ? behind : microbatches, turn = k - first;
    if (turn < 0) return {forward, k};
    if (turn >= 2 * (microbatches - first)) return {backward, k - microbatches};
    return turn % 2 == 0 ? unit_of_work{forward, first + turn / 2} : unit_of_work{backward, turn / 2};
  }
};

/// When each stage does what, if a step forward and a step back take a unit of time each, and each is done as soon as
/// it is its turn and what it needs is there.
class pipeline_timeline {
 public:
  /// Runs an order, also one that cannot work: then it is not `complete`.
  /// @param stages, microbatches at least 1
  template <pipeline_order O>
  static constexpr pipeline_timeline of(int stages, int microbatches) {
    pipeline_timeline t(stages, microbatches);
    for (bool moved = true; moved;) {
      moved = false;
      for (int stage = 0; stage < stages; ++stage) moved |= t.advance(stage, O{stage, stages, microbatches});
    }
    return t;
  }

  constexpr int stages() const { return static_cast<int>(rows_.size()); }
  constexpr int microbatches() const { return microbatches_; }
  /// Whether all stages have come to their end, with every microbatch forward and back once.
  constexpr bool complete() const {
    for (auto const& row : rows_)
      if (row.size() != 2 * static_cast<std::size_t>(microbatches_)) return false;
    return !wrong_;
  }
  /// Units until the last stage is done.
  constexpr int length() const {
    int end = 0;
    for (auto const& row : rows_)
      if (!row.empty() && row.back().at + 1 > end) end = row.back().at + 1;
    return end;
  }
  /// Units in which a stage has nothing to do before its first step, after its last, or between them.
  constexpr int idle_before(int stage) const { return of(stage).front().at; }
  constexpr int idle_after(int stage) const { return length() - 1 - of(stage).back().at; }
  constexpr int idle_between(int stage) const {
    return length() - idle_before(stage) - idle_after(stage) - static_cast<int>(of(stage).size());
  }
  /// The part of all stages' time in which they have nothing to do. For both orders above (p-1) / (m+p-1), for p stages
  /// and m microbatches.
  constexpr double idle_fraction() const {
    int const all = length() * stages();
    return static_cast<double>(all - 2 * microbatches_ * stages()) / all;
  }
  /// The most microbatches that a stage holds at once: gone forward, not yet back.
  constexpr int held(int stage) const {
    int now = 0, most = 0;
    for (entry const& e : of(stage)) {
      now += e.what.way == unit_of_work::direction::forward ? 1 : -1;
      if (now > most) most = now;
    }
    return most;
  }

  /// For a terminal: a line a stage, a column a unit. `F2` is microbatch 2 on its way forward, `B2` on its way back,
  /// `.` is time in which the stage waits.
  std::string text() const {
    std::size_t const width = std::to_string(microbatches_ - 1).size() + 2;
    auto padded = [](std::string s, std::size_t to) { return s.append(s.size() < to ? to - s.size() : 0, ' '); };
    std::size_t const head = ("stage " + std::to_string(stages() - 1) + "  ").size();
    std::string all;
    for (int stage = 0; stage < stages(); ++stage) {
      std::string line = padded("stage " + std::to_string(stage), head);
      int at = 0;
      for (entry const& e : of(stage)) {
        for (; at < e.at; ++at) line += padded(".", width);
        char const way = e.what.way == unit_of_work::direction::forward ? 'F' : 'B';
        line += padded(way + std::to_string(e.what.microbatch), width), ++at;
      }
      for (; at < length(); ++at) line += padded(".", width);
      all += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return all;
  }

  /// For a page: a whole SVG file with neither scripts nor fonts of its own. A row a stage, a box a unit: a
  /// microbatch's way forward, its way back, or time in which the stage waits. Brackets beneath count the units at both
  /// ends in which the last stage waits.
  std::string svg() const;

 private:
  struct entry {
    unit_of_work what;
    int at;
  };
  struct canvas;

  constexpr pipeline_timeline(int stages, int microbatches)
      : microbatches_(microbatches),
        rows_(static_cast<std::size_t>(stages)),
        ends_(rows_.size() * 2 * static_cast<std::size_t>(microbatches), 0) {}
  constexpr std::vector<entry> const& of(int stage) const { return rows_[static_cast<std::size_t>(stage)]; }
  // When a step ends; 0 while it has not been done.
  constexpr int& end(int stage, unit_of_work u) {
    return ends_[2 * static_cast<std::size_t>(stage * microbatches_ + u.microbatch) + static_cast<std::size_t>(u.way)];
  }
  // Does all that a stage can do by now. True when that is something.
  template <class O>
  constexpr bool advance(int stage, O const& order) {
    using enum unit_of_work::direction;
    auto& row = rows_[static_cast<std::size_t>(stage)];
    std::size_t const before = row.size();
    while (row.size() < 2 * static_cast<std::size_t>(microbatches_) && !wrong_) {
      unit_of_work const u = order[static_cast<int>(row.size())];
      wrong_ = u.microbatch < 0 || u.microbatch >= microbatches_ || end(stage, u) != 0;  // there is none, or twice
      if (wrong_) break;
      bool const outermost = u.way == forward ? stage == 0 : stage == stages() - 1;
      int const needs_own = u.way == forward ? -1 : end(stage, {forward, u.microbatch});
      int const needs_other = outermost ? -1 : end(u.way == forward ? stage - 1 : stage + 1, u);
      if (needs_own == 0 || needs_other == 0) break;
      int at = row.empty() ? 0 : row.back().at + 1;
      if (needs_own > at) at = needs_own;
      if (needs_other > at) at = needs_other;
      row.push_back({u, at});
      end(stage, u) = at + 1;
    }
    return row.size() != before;
  }

  int microbatches_;
  bool wrong_ = false;
  std::vector<std::vector<entry>> rows_;
  std::vector<int> ends_;
};

/// Whether an order works: no stage waits for ever, and every microbatch goes forward and back once at every stage. A
/// constant expression.
/// @tparam O the order, the library's or a reader's own
template <pipeline_order O>
constexpr bool proved_pipeline(int stages, int microbatches) {
  return pipeline_timeline::of<O>(stages, microbatches).complete();
}

// Where things stand, in pixels, and the pieces of the picture.
struct pipeline_timeline::canvas {
  static constexpr int left = 84, top = 84, unit = 40, row = 42, box = 36;
  std::string out;

  static int x(int at) { return left + at * unit; }
  static int y(int stage) { return top + stage * row; }
  static std::string put(char const* name, int value) {
    return std::string(" ") + name + "=\"" + std::to_string(value) + "\"";
  }
  void words(int x, int y, char const* style, std::string const& w) {
    out += "<text" + put("x", x) + put("y", y) + " class=\"" + style + "\">" + w + "</text>\n";
  }
  void rectangle(int x, int y, int width, int height, char const* style) {
    out += "<rect" + put("x", x) + put("y", y) + put("width", width) + put("height", height) + " class=\"" + style +
           "\"/>\n";
  }
  void bracket(int from, int to, int y) {
    if (from == to) return;
    out += "<path class=\"ends\" d=\"M" + std::to_string(x(from) + 2) + " " + std::to_string(y) + "v6h" +
           std::to_string((to - from) * unit - 6) + "v-6\"/>\n";
    words((x(from) + x(to)) / 2, y + 22, "count", std::to_string(to - from) + " idle");
  }
};

inline std::string pipeline_timeline::svg() const {
  canvas c;
  int const foot = canvas::y(stages()) + 4, width = canvas::x(length() < 12 ? 12 : length()) + 40, height = foot + 76;
  c.out = "<svg xmlns=\"http://www.w3.org/2000/svg\"" + c.put("width", width) + c.put("height", height) +
          " viewBox=\"0 0 " + std::to_string(width) + " " + std::to_string(height) + R"(">
<style>
text { font-family: system-ui, 'Helvetica Neue', Arial, sans-serif; font-size: 14px; fill: #1f2937 }
.title { font-size: 20px; font-weight: 600 }
.count { text-anchor: middle }
.stage { text-anchor: end }
.note { fill: #4b5563 }
.ends { fill: none; stroke: #6b7280 }
.forward { fill: #9fd3f5 }
.backward { fill: #8fd6bd }
.idle { fill: #eceef1 }
</style>
)";
  c.out += "<rect" + c.put("width", width) + c.put("height", height) + " rx=\"10\" fill=\"#fcfcfd\"/>\n";
  c.words(canvas::left, 36, "title",
          "Stages p = " + std::to_string(stages()) + ", microbatches m = " + std::to_string(microbatches_));
  c.words(canvas::left, 60, "note",
          complete() ? "units: " + std::to_string(length()) +
                           ", idle: " + std::to_string(std::lround(100 * idle_fraction())) + " % of the time"
                     : "it locks: no stage can go on");
  for (int stage = 0; stage < stages(); ++stage) {
    int const y = canvas::y(stage);
    c.words(canvas::left - 12, y + 23, "stage", "stage " + std::to_string(stage));
    auto const unit = [&](int at, char const* style) {
      c.rectangle(canvas::x(at), y, canvas::unit - 2, canvas::box, style);
    };
    int at = 0;
    for (entry const& e : of(stage)) {
      for (; at < e.at; ++at) unit(at, "idle");
      unit(at, e.what.way == unit_of_work::direction::forward ? "forward" : "backward");
      c.words(canvas::x(at++) + canvas::unit / 2 - 1, y + 23, "count", std::to_string(e.what.microbatch));
    }
    for (; at < length(); ++at) unit(at, "idle");
  }
  if (complete()) {
    c.bracket(0, idle_before(stages() - 1), foot);
    c.bracket(length() - idle_after(stages() - 1), length(), foot);
  }
  int x = canvas::left;
  for (char const* what : {"forward", "backward", "idle"}) {
    c.rectangle(x, foot + 42, 14, 14, what);
    c.words(x + 22, foot + 54, "note", what), x += 110;
  }
  return c.out + "</svg>\n";
}

}  // namespace ringlet
