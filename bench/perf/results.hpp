// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "options.hpp"
#include "report.hpp"

namespace perf {

/// Writes the files that the options ask for.
/// @param ranks how many took part
/// @throws std::runtime_error naming a file that cannot be written
void write_results(options const& o, int ranks, report const& r);

}  // namespace perf
