// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <type_traits>

#include "options.hpp"
#include "transports.hpp"

namespace perf {

/// Fills the options in from the command line. Says what is wrong with it, or the help that was asked for.
/// @return the status with which to end now, 2 for wrong arguments; nothing when there is work to do
std::optional<int> parse(int argc, char** argv, options& o);

/// Calls `f` with the entry of the transport that the options name.
template <class F>
void with_transport(options const& o, F&& f) {
  auto const try_one = [&](auto const& e) {
    if (o.transport == e.name) f(e);
  };
  std::apply([&](auto const&... e) { (try_one(e), ...); }, transports);
}

/// The settings of a transport, as far as options name them.
/// @tparam X the transport
/// @throws ringlet::error(errc::invalid_argument) when they cannot work
template <class X>
typename X::settings settings_for(options const& o) {
  typename X::settings s;
  if constexpr (std::is_base_of_v<ringlet::segment_settings, typename X::settings>) {
    static_cast<ringlet::segment_settings&>(s) = o.segment;
    s.check();
  }
  return s;
}

}  // namespace perf
