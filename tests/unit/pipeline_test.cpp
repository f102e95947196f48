// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/pipeline.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "../svg.hpp"

using namespace ringlet;

namespace {

// What a picture shows, box by box: F, B or . with the number that stands in the box.
struct read_picture {
  std::vector<std::vector<std::string>> rows;  // by stage, unit by unit
  std::vector<int> brackets;                   // the units that each counts

  explicit read_picture(std::string const& svg) {
    std::map<int, std::map<int, std::string>> boxes;  // by y and x
    int width = 0;
    for (auto const& [tag, words] : elements(svg)) {
      std::string const style = value(tag, "class");
      if (tag.starts_with("rect") && style != "" && value(tag, "height") == "36") {
        boxes[number(tag, "y")][number(tag, "x")] = style == "forward" ? "F" : style == "backward" ? "B" : ".";
        width = number(tag, "width");
      }
      if (style == "count" && words.ends_with(" idle")) brackets.push_back(std::atoi(words.c_str()));
      if (style == "count" && !words.ends_with(" idle"))
        for (auto& [y, row] : boxes)
          for (auto& [x, box] : row)
            if (x <= number(tag, "x") && number(tag, "x") < x + width && y < number(tag, "y") &&
                number(tag, "y") < y + 36)
              box += words;
    }
    for (auto const& [y, row] : boxes) {
      auto& units = rows.emplace_back();
      int end = 0;
      for (auto const& [x, box] : row) {
        if (end != 0) CHECK(x == end);  // neither gaps nor overlaps
        end = x + width + 2;
        units.push_back(box);
      }
    }
  }
  double idle_fraction() const {
    std::size_t all = 0, idle = 0;
    for (auto const& row : rows)
      for (auto const& box : row) ++all, idle += box == ".";
    return static_cast<double>(idle) / static_cast<double>(all);
  }
  std::string text() const {
    std::string all;
    for (std::size_t stage = 0; stage < rows.size(); ++stage) {
      std::string line = "stage " + std::to_string(stage) + "  ";
      for (auto const& box : rows[stage]) line += box + (box == "." ? "  " : " ");
      all += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return all;
  }

 private:
  struct element {
    std::string tag, words;
  };
  static std::vector<element> elements(std::string const& svg) {
    std::vector<element> all;
    for (auto at = svg.find('<'); at != svg.npos; at = svg.find('<', at + 1)) {
      auto const end = svg.find('>', at);
      all.push_back({svg.substr(at + 1, end - at - 1), svg.substr(end + 1, svg.find('<', end) - end - 1)});
    }
    return all;
  }
  static std::string value(std::string const& tag, std::string const& name) {
    auto const at = tag.find(" " + name + "=\"");
    if (at == tag.npos) return "";
    auto const begin = at + name.size() + 3;
    return tag.substr(begin, tag.find('"', begin) - begin);
  }
  static int number(std::string const& tag, char const* name) { return std::atoi(value(tag, name).c_str()); }
};

template <class Order>
void check_picture(int p, int m) {
  CAPTURE(p);
  CAPTURE(m);
  auto const timeline = pipeline_timeline::of<Order>(p, m);
  std::string const svg = timeline.svg();
  CHECK(stands_alone(svg));
  read_picture const drawn(svg);
  CHECK(drawn.text() == timeline.text());
  CHECK(drawn.idle_fraction() == static_cast<double>(p - 1) / (m + p - 1));
  CHECK(drawn.idle_fraction() == timeline.idle_fraction());
  // The last stage starts after p-1 units, and p-1 units remain when it is done.
  auto const& last = drawn.rows.back();
  REQUIRE(last.size() == static_cast<std::size_t>(2 * (m + p - 1)));
  for (std::size_t at = 0; at < last.size(); ++at)
    CHECK((last[at] == ".") == (at + 1 < static_cast<std::size_t>(p) || at >= last.size() - (p - 1u)));
  CHECK(drawn.brackets == (p == 1 ? std::vector<int>{} : std::vector{p - 1, p - 1}));
}

}  // namespace

TEST_CASE("the picture shows what the text shows, and p-1 idle units at each end") {
  for (int p : {1, 2, 4, 7})
    for (int m : {1, 3, 8}) {
      check_picture<all_forward_then_backward>(p, m);
      check_picture<one_forward_one_backward>(p, m);
    }
}

TEST_CASE("the timelines of four stages as text") {
  CHECK(pipeline_timeline::of<all_forward_then_backward>(4, 4).text() ==
        "stage 0  F0 F1 F2 F3 .  .  .  .  .  .  B0 B1 B2 B3\n"
        "stage 1  .  F0 F1 F2 F3 .  .  .  .  B0 B1 B2 B3 .\n"
        "stage 2  .  .  F0 F1 F2 F3 .  .  B0 B1 B2 B3 .  .\n"
        "stage 3  .  .  .  F0 F1 F2 F3 B0 B1 B2 B3 .  .  .\n");
  CHECK(pipeline_timeline::of<one_forward_one_backward>(4, 4).text() ==
        "stage 0  F0 F1 F2 F3 .  .  .  B0 .  B1 .  B2 .  B3\n"
        "stage 1  .  F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3 .\n"
        "stage 2  .  .  F0 F1 .  B0 F2 B1 F3 B2 .  B3 .  .\n"
        "stage 3  .  .  .  F0 B0 F1 B1 F2 B2 F3 B3 .  .  .\n");
}

TEST_CASE("of an order that locks, what there is of it") {
  struct backward_first {
    int stage, stages, microbatches;
    constexpr unit_of_work operator[](int k) const {
      return {k == 0 ? unit_of_work::direction::backward : unit_of_work::direction::forward, 0};
    }
  };
  auto const t = pipeline_timeline::of<backward_first>(2, 1);
  CHECK_FALSE(t.complete());
  CHECK(t.length() == 0);
  CHECK(t.text() == "stage 0\nstage 1\n");
  CHECK(stands_alone(t.svg()));
  CHECK(t.svg().find("it locks") != std::string::npos);
}
