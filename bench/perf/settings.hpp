// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>

#include "options.hpp"
#include "transports.hpp"

namespace perf {

/// An option that some transports have a setting for.
/// @tparam T its value
/// @tparam Place calls with a transport's settings only where they have it, and gives it
template <class T, class Place>
struct setting {
  char const* name;                  ///< on the command line
  std::optional<T> options::*given;  ///< what it says there
  Place place;
  char const* what;  ///< for the help

  template <class X>
  static constexpr bool is_of = std::is_invocable_v<Place, typename X::settings&>;
};
template <class T, class Place>
setting(char const*, std::optional<T> options::*, Place, char const*) -> setting<T, Place>;

namespace detail {
// Of what goes between hosts, where that is a part.
constexpr auto& far(auto& s) {
  if constexpr (requires { s.far; })
    return s.far;
  else
    return s;
}
}  // namespace detail

/// All of them.
inline constexpr std::tuple settings{
    setting{"--slots", &options::slots, [](auto& s) -> decltype((s.slots)) { return s.slots; },
            "Slices that a queue holds"},
    setting{"--slot-bytes", &options::slot_bytes, [](auto& s) -> decltype((s.slot_bytes)) { return s.slot_bytes; },
            "Bytes of a slice"},
    setting{"--lanes", &options::lanes, [](auto& s) -> decltype((s.lanes)) { return s.lanes; }, "Parallel rings"},
    setting{"--board-bytes", &options::board_bytes, [](auto& s) -> decltype((s.board_bytes)) { return s.board_bytes; },
            "Bytes of a board, which holds a rank's input in one shot"},
    setting{"--stage-bytes", &options::stage_bytes, [](auto& s) -> decltype((s.stage_bytes)) { return s.stage_bytes; },
            "Bytes by which others reach what is in ordinary memory"},
    setting{"--provider", &options::provider,
            [](auto& s) -> decltype((detail::far(s).provider)) { return detail::far(s).provider; },
            "libfabric's providers to choose from: net,tcp or =tcp or ^tcp"},
    setting{"--interface", &options::interface,
            [](auto& s) -> decltype((detail::far(s).interface)) { return detail::far(s).interface; },
            "Network interfaces to choose from, likewise: eth or =eth0 or ^docker,lo"},
};

/// The settings of a transport, as far as options name them.
/// @tparam X the transport
/// @throws ringlet::error(errc::invalid_argument) when they cannot work
template <class X>
typename X::settings settings_for(options const& o) {
  typename X::settings made;
  auto const put = [&](auto const& s) {
    if constexpr (std::decay_t<decltype(s)>::template is_of<X>)
      if (auto const& given = o.*s.given) s.place(made) = *given;
  };
  std::apply([&](auto const&... s) { (put(s), ...); }, settings);
  if constexpr (requires { made.check(); }) made.check();
  return made;
}

}  // namespace perf
