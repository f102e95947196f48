// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>
#include <tuple>

#include "options.hpp"
#include "ringlet/bootstrap/environment.hpp"
#include "transports.hpp"

namespace perf {

/// Fills the options in from the command line, and reads the file that --tuning names. Says what is wrong with them,
/// once on each machine, or the help that was asked for.
/// @param where what a launcher says, whose number of ranks goes before that of the options
/// @return the status with which to end now, 2 for wrong arguments; nothing when there is work to do
std::optional<int> parse(int argc, char** argv, ringlet::launch_environment const& where, options& o);

/// Calls `f` with the entry of the transport that the options name.
template <class F>
void with_transport(options const& o, F&& f) {
  auto const try_one = [&](auto const& e) {
    if (o.transport == e.name) f(e);
  };
  std::apply([&](auto const&... e) { (try_one(e), ...); }, transports);
}

/// What the buffers of so many ranks need and this machine has, in words.
std::string memory_words(options const& o, int ranks);

}  // namespace perf
