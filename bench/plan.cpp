// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ringlet-plan: which way of dividing a training run can live with which link. The arithmetic is in
// ringlet/planner.hpp.

#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>

#include "plan/report.hpp"
#include "plan/request.hpp"
#include "plan/timeline.hpp"

namespace {

template <class Write>
void write(std::string const& name, Write&& f) {
  if (name.empty()) return;
  std::ofstream file(name);
  f(file);
  if (!file.flush()) throw std::runtime_error("cannot write " + name);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    planner::request r;
    if (auto const status = planner::parse(argc, argv, r)) return *status;
    auto const best = r.by ? assign(r.model, r.machines, *r.by, r.on) : search(r.model, r.machines, r.devices, r.on);
    planner::print(r, best);
    write(r.json, [&](std::ostream& to) { planner::write_json(to, r, best); });
    write(r.svg, [&](std::ostream& to) { planner::draw(to, r, best); });
  } catch (ringlet::error const& e) {
    std::fprintf(stderr, "ringlet-plan: %s\n", e.words().c_str());
    return 2;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "ringlet-plan: %s\n", e.what());
    return 2;
  }
}
