// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "results.hpp"

#include <algorithm>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "plot.hpp"

namespace perf {
namespace {

nlohmann::ordered_json json(options const& o, int ranks, report const& r, counts const& copies) {
  using nlohmann::ordered_json;
  auto const values = [](result const& one) {
    return ordered_json{{"time_us", one.microseconds},
                        {"algbw", one.algbw},
                        {"busbw", one.busbw},
                        {"wrong", one.wrong ? ordered_json(*one.wrong) : ordered_json(nullptr)},
                        {"busiest_rank_bytes", one.carried ? ordered_json(*one.carried) : ordered_json(nullptr)}};
  };
  auto rows = ordered_json::array();
  for (row const& one : r.rows())
    rows.push_back({{"size", one.bytes},
                    {"count", one.count},
                    {"type", one.type},
                    {"redop", one.op},
                    {"root", one.root},
                    {"out_of_place", values(one.out_of_place)},
                    {"in_place", values(one.in_place)}});
  std::time_t const now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  ordered_json whole{{"ringlet", version()},
                     {"date", date},
                     {"collective", o.collective},
                     {"transport", o.transport},
                     {"ranks", ranks},
                     {"selection", o.select.describe()},
                     {"memory", o.allocated ? "allocated" : "ordinary"},
                     {"pinned", o.pin},
                     {"iterations", o.iterations},
                     {"warm_up", o.warm_up},
                     {"rows", rows},
                     {"wrong_measurements", r.wrong()},
                     {"average_busbw", r.average_busbw()}};
  for (auto const& [what, bytes] : copies) whole["bytes"][what] = bytes;
  return whole;
}

// Out of place a curve for each type and operator; if there is but one, in place as well.
std::vector<curve> curves(report const& r) {
  std::vector<curve> all;
  for (row const& one : r.rows()) {
    std::string const name = one.type + (one.op == "none" ? "" : " " + one.op) +
                             (one.by_collector ? ", by a collector"
                              : one.root < 0   ? ""
                                               : ", root " + std::to_string(one.root));
    auto its = std::find_if(all.begin(), all.end(), [&](curve const& c) { return c.name == name; });
    if (its == all.end()) its = all.insert(its, {name, {}});
    its->points.emplace_back(one.bytes, one.out_of_place.busbw);
  }
  if (all.size() == 1) {
    curve in_place{all[0].name + ", in place", {}};
    for (row const& one : r.rows()) in_place.points.emplace_back(one.bytes, one.in_place.busbw);
    all[0].name += ", out of place";
    all.push_back(std::move(in_place));
  }
  return all;
}

template <class Write>
void write(std::string const& name, Write&& f) {
  if (name.empty()) return;
  std::ofstream file(name);
  f(file);
  if (!file.flush()) throw std::runtime_error("cannot write " + name);
}

}  // namespace

void write_results(options const& o, int ranks, report const& r, counts const& copies) {
  write(o.json, [&](std::ostream& to) { to << json(o, ranks, r, copies).dump(2) << '\n'; });
  write(o.svg, [&](std::ostream& to) {
    plot(to, o.collective + " over " + o.transport,
         std::to_string(ranks) + " ranks" + (o.pin ? ", pinned, " : ", ") + (o.allocated ? "allocated" : "ordinary") +
             " memory, mean of " + std::to_string(o.iterations) + " calls",
         curves(r));
  });
}

}  // namespace perf
