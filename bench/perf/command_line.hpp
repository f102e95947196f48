// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>

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
  if constexpr (requires { s.slots, s.slot_bytes, s.lanes; }) {
    s.slots = o.slots.value_or(s.slots);
    s.slot_bytes = o.slot_bytes.value_or(s.slot_bytes);
    s.lanes = o.lanes.value_or(s.lanes);
    if constexpr (requires { s.board_bytes, s.stage_bytes; }) {
      s.board_bytes = o.board_bytes.value_or(s.board_bytes);
      s.stage_bytes = o.stage_bytes.value_or(s.stage_bytes);
    }
    if constexpr (requires { s.stage_bytes, s.line_count; }) s.stage_bytes = o.stage_bytes.value_or(s.stage_bytes);
    s.check();
  }
  auto const over = [&](auto& its) {
    if constexpr (requires { its.provider, its.interface; }) its.provider = o.provider, its.interface = o.interface;
  };
  over(s);
  if constexpr (requires { s.far; }) over(s.far);
  return s;
}

}  // namespace perf
