// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <ostream>

#include "request.hpp"

namespace planner {

/// Prints a plan as a table.
void print(request const& r, ringlet::planning::plan const& p);
/// Writes a plan as JSON: times in seconds, sizes in bytes.
void write_json(std::ostream& to, request const& r, ringlet::planning::plan const& p);

}  // namespace planner
