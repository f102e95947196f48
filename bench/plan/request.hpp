// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>

#include "ringlet/planner.hpp"

namespace planner {

/// What ringlet-plan is asked.
struct request {
  ringlet::planning::training model{.parameters = 70e9, .layers = 80, .hidden = 8192, .sequence = 4096, .batch = 1024};
  ringlet::planning::cluster machines{400e12, 80e9, {{"node", 400e9, 1.5e-6, 8}, {"network", 25e9, 5e-6, 16384}}};
  int devices = 1024;
  std::optional<ringlet::planning::degrees> by;  ///< nothing: they are searched for
  ringlet::planning::chosen_links on{};
  double tolerated = 0.1;  ///< share of computation that an axis may add
  std::string json, svg;   ///< files to write; empty for none
};

/// Fills a request in from a command line and the file it names.
/// @return the status with which to end now, 2 for wrong arguments; nothing when there is work to do
std::optional<int> parse(int argc, char** argv, request& r);

/// Fills a request in from a JSON file.
/// @throws ringlet::error(errc::invalid_argument) that names file and line
void read(std::string const& file, request& r);

/// The axis with that name.
/// @throws ringlet::error(errc::invalid_argument)
ringlet::planning::axis axis_named(std::string const& name);
/// Tells an axis which link to take.
/// @throws ringlet::error(errc::invalid_argument) when there is no such link
void put_on(request& r, ringlet::planning::axis a, std::string const& link);
/// The degrees to change: all 1 where none were given.
inline ringlet::planning::degrees& degrees_of(request& r) { return r.by ? *r.by : r.by.emplace(); }

}  // namespace planner
