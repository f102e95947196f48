// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "options.hpp"
#include "report.hpp"
#include "transports.hpp"

namespace perf {

/// Measures what the options ask for, with elements of one type; all ranks call it. In parts, by type, since this is
/// where nearly all compile time goes: see measure_type.hpp.
/// @tparam T the element
/// @param type its name in tables
template <class T>
void measure_type(any_communicator& comm, options const& o, char const* type, report& to);

/// The same of broadcast, and of all_gather in memory of the host: they move bytes, whatever they are.
/// @param bytes of an element
void measure_moves(any_communicator& comm, options const& o, char const* type, std::size_t bytes, report& to);

// What ranks tell each other about a measurement; all ranks call them.
void meet(any_communicator& comm);
double largest(any_communicator& comm, double mine);
std::uint64_t total(any_communicator& comm, std::uint64_t mine);

/// Each rank gives its part, a part of the same size for each rank, and gets all.
void gather(any_communicator& comm, std::span<std::uint8_t> all);

}  // namespace perf
