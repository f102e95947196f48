// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <ratio>
#include <string>
#include <vector>

#include "ringlet/clock.hpp"
#include "ringlet/error.hpp"

namespace ringlet {

/// Time on a virtual clock, in whole picoseconds: sums are exact, and 106 days fit.
using virtual_time = std::chrono::duration<std::int64_t, std::pico>;

/// Picoseconds as virtual time, rounded to the nearest, halves up; not negative.
constexpr virtual_time virtual_picoseconds(double picoseconds) {
  auto const below = static_cast<std::int64_t>(picoseconds);
  return virtual_time(below + (picoseconds - static_cast<double>(below) >= 0.5 ? 1 : 0));
}
/// Seconds as virtual time, likewise.
constexpr virtual_time virtual_seconds(double seconds) { return virtual_picoseconds(seconds * 1e12); }
/// Virtual time as seconds.
constexpr double in_seconds(virtual_time t) { return static_cast<double>(t.count()) / 1e12; }

/// What carries slices one way. Slices leave one after the other, in the order in which they were committed.
struct simulated_wire {
  double alpha = 0;         ///< seconds until a slice of no bytes has arrived; its credit takes as long to come back
  double beta = 0;          ///< seconds for which a byte occupies the wire
  double burst = 0;         ///< bytes that pass at once when it has rested for the time they take (a token bucket)
  double loss = 0;          ///< how often a slice is lost, from 0 to below 1
  double resend_after = 0;  ///< seconds after which a lost slice leaves again
  double jitter = 0;        ///< each slice is late by up to so many seconds, all delays equally likely
};

/// What a rank is like.
struct simulated_rank {
  double gamma = 0;      ///< seconds it takes to add up a byte that arrives
  double overhead = 0;   ///< seconds a slice takes its sender, and again its receiver (o of LogP: Culler et al., 1993)
  double starts_at = 0;  ///< when it comes to its first operation
  /// When it dies: a slice that is not done by then is never begun.
  double dies_at = std::numeric_limits<double>::infinity();
};

/// What a simulated ring is like.
struct simulated_settings {
  int ranks = 2;          ///< at least 1
  std::size_t lanes = 1;  ///< links from each rank to the next
  std::size_t slots = 8;  ///< slices that a queue holds, at least 2
  /// Bytes of a slice in memory. 0: there is no memory, slices are only counted, and nobody may touch them.
  std::size_t slot_bytes = 0;
  std::vector<simulated_wire> wires{simulated_wire{}};  ///< at least one
  /// Which wire the link of rank r and lane l takes: `over[r * lanes + l]`. Several may take the same one. Empty: each
  /// link has one to itself, like `wires[0]`.
  std::vector<std::size_t> over{};
  std::vector<simulated_rank> members{simulated_rank{}};  ///< one for each rank, or one that all are like
  /// Processors that all ranks share: what takes a rank time waits for one, first come, first served, and keeps it to
  /// its end. 0: each link has one to itself. Not for programs, whose own computation takes none.
  std::size_t processors = 0;
  double timeout = 60;     ///< seconds of waiting after which a rank gives up
  std::uint64_t seed = 1;  ///< of what is lost and late

  /// What a rank is like.
  simulated_rank const& member(int rank) const {
    return members[members.size() == 1 ? 0 : static_cast<std::size_t>(rank)];
  }
  /// @throws error(errc::invalid_argument) with what was given and what was expected
  void check() const;
};

inline void simulated_settings::check() const {
  auto const refuse = [](std::string const& words) { throw error(errc::invalid_argument, "simulated: " + words); };
  if (ranks < 1) refuse("ranks is " + std::to_string(ranks) + ": give at least 1");
  if (lanes < 1) refuse("lanes is 0: give at least 1");
  if (slots < 2) refuse("slots is " + std::to_string(slots) + ": give at least 2, or the ring locks");
  if (wires.empty()) refuse("there is no wire: give one that all are like, or all of them");
  std::size_t const links = static_cast<std::size_t>(ranks) * lanes;
  if (!over.empty() && over.size() != links)
    refuse("over names wires for " + std::to_string(over.size()) + " links, but there are " + std::to_string(links));
  for (std::size_t w : over)
    if (w >= wires.size())
      refuse("over names wire " + std::to_string(w) + ", but there are " + std::to_string(wires.size()));
  if (members.size() != 1 && members.size() != static_cast<std::size_t>(ranks))
    refuse("members describes " + std::to_string(members.size()) + " ranks: give one for all " + std::to_string(ranks) +
           ", or all of them");
  // Written so that what is no number does not pass. Ten days leave room for what times add up to.
  auto const time = [&](double t, char const* name, double most = 1e6) {
    if (!(t >= 0 && t <= most)) refuse(detail::words("%s is %g seconds: give 0 to %g", name, t, most));
  };
  for (simulated_wire const& w : wires) {
    time(w.alpha, "alpha"), time(w.beta, "beta", 1), time(w.resend_after, "resend_after"), time(w.jitter, "jitter");
    if (!(w.burst >= 0 && w.burst * w.beta <= 1e6))
      refuse(detail::words("burst is %g bytes: give 0 to 1e6 / beta", w.burst));
    if (!(w.loss >= 0 && w.loss < 1)) refuse(detail::words("loss is %g: give 0 to below 1", w.loss));
  }
  for (simulated_rank const& r : members) {
    time(r.gamma, "gamma", 1), time(r.overhead, "overhead"), time(r.starts_at, "starts_at");
    time(r.dies_at, "dies_at", std::numeric_limits<double>::infinity());
  }
  time(timeout, "timeout");
}

}  // namespace ringlet
