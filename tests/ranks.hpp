// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// What tests of several ranks have in common. In a rank that is a process doctest's macros would report to nobody:
// there, say `expect`, and check in the caller that `launch` gives 0.

#include <chrono>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ringlet/bootstrap/launch.hpp"
#include "ringlet/bootstrap/memory_store.hpp"
#include "ringlet/collective_operation.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/error.hpp"

namespace tests {

using namespace std::chrono_literals;
using ringlet::errc;
using ringlet::launch;
using ringlet::ranks_as;
using self = ringlet::bootstrap<ringlet::memory_store>;

inline void expect(bool holds, std::string const& words) {
  if (!holds) throw std::runtime_error(words);
}
inline bool contains(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

// The error of ringlet's that f throws, if it throws one.
template <class F>
std::optional<ringlet::error> error_of(F&& f) {
  try {
    f();
  } catch (ringlet::error const& e) {
    return e;
  }
  return std::nullopt;
}
inline void expect(std::optional<ringlet::error> const& e, errc why, std::string const& words = "") {
  expect(e.has_value(), "no error, expected: " + ringlet::category().message(static_cast<int>(why)) + ": " + words);
  expect(e->why() == why && contains(e->what(), words),
         "the error is '" + std::string(e->what()) + "', expected one of '" +
             ringlet::category().message(static_cast<int>(why)) + "' with '" + words + "'");
}

// A transport, and what its ranks are.
template <class X, ranks_as As>
struct ranks_of {
  using transport = X;
  static constexpr ranks_as as = As;
};
template <class X>
using threads = ranks_of<X, ranks_as::threads>;
template <class X>
using processes = ranks_of<X, ranks_as::processes>;

// Options with what such ranks set besides, if they do: `Ranks::set(settings of the transport)`.
template <class Ranks>
ringlet::connect_options<typename Ranks::transport> options_of(
    ringlet::connect_options<typename Ranks::transport> options = {}) {
  if constexpr (requires { Ranks::set(options.transport); }) Ranks::set(options.transport);
  return options;
}

// Connects n ranks and runs f(communicator) on each. 0 when all were well.
template <class Ranks, class F>
int on(int n, F&& f, ringlet::connect_options<typename Ranks::transport> const& options = {}) {
  return launch(n,
                [&, its = options_of<Ranks>(options)](self who) {
                  auto comm = ringlet::connect<typename Ranks::transport>(who, its);
                  f(comm);
                },
                {.as = Ranks::as});
}

// Options for a transport whose settings have slots, so small that little input makes many rounds, and no stage: what
// does not fit a board, or a chord, goes round the ring.
template <class X>
ringlet::connect_options<X> with_slots(std::size_t slots, std::size_t slot_bytes, std::size_t lanes = 1) {
  ringlet::connect_options<X> options;
  options.transport.slots = slots;
  options.transport.slot_bytes = slot_bytes;
  options.transport.lanes = lanes;
  if constexpr (requires { options.transport.board_bytes; })
    options.transport.board_bytes = 128;  // hardly anything in one shot
  if constexpr (requires { options.transport.chord_bytes; }) options.transport.chord_bytes = 16;  // nor by chords
  if constexpr (requires { options.transport.stage_bytes; }) options.transport.stage_bytes = 0;
  return options;
}
// Options for one with stages, so small that little input makes many rounds.
template <class X>
ringlet::connect_options<X> with_stage(std::size_t bytes) {
  auto options = with_slots<X>(2, 128);
  options.transport.stage_bytes = bytes;
  return options;
}

}  // namespace tests
