// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "options.hpp"
#include "report.hpp"

namespace perf {

/// Bytes that a transport has counted on rank 0, by what became of them.
using counts = std::vector<std::pair<std::string, std::uint64_t>>;

/// Writes the files that the options ask for.
/// @param ranks how many took part
/// @param copies may be empty
/// @throws std::runtime_error naming a file that cannot be written
void write_results(options const& o, int ranks, report const& r, counts const& copies);

}  // namespace perf
