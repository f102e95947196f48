// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <ostream>

#include "request.hpp"

namespace planner {

/// Draws one step of a plan as SVG: a row a stage, what it computes and when, what hides beneath and what does not.
void draw(std::ostream& to, request const& r, ringlet::planning::plan const& p);

}  // namespace planner
