// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "ringlet/error.hpp"
#include "ringlet/operation.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/schedule.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/transport.hpp"
#include "ringlet/transport/simulated.hpp"
#include "ringlet/worker.hpp"

namespace ringlet {

/// How a simulated operation ended on one rank.
struct simulated_end {
  status how;            ///< `pending`: the rank had died (of a program: `failed`, once it needs the ring)
  virtual_time at;       ///< when, on the virtual clock
  virtual_time waited;   ///< of that, how long it had nothing to do; of all its links
  std::uint64_t slices;  ///< sent, over all its links
  std::uint64_t bytes;   ///< sent
  std::uint64_t lost;    ///< how often a slice of its was lost on the way
};

/// What came of a simulated operation.
struct simulation {
  virtual_time began, ended;         ///< when the last rank began, and when the last one ended
  std::vector<simulated_end> ranks;  ///< by rank
  std::optional<fault> why;          ///< why it failed, if it did
  /// From the moment when all had come until the last one ended, in seconds.
  double seconds() const { return in_seconds(ended - began); }
};

namespace detail {

// A worker that touches no element: the last member of one so large that no element is its share. What it is for is to
// run the engine on buffers that are not there.
struct nobody {
  constexpr unsigned rank() const { return 0xfffffffe; }
  constexpr unsigned size() const { return 0xffffffff; }
  constexpr void sync() const {}
  template <class F>
  constexpr auto leader(F f) const {
    return f();
  }
};
static_assert(worker<nobody>);

// Addresses without memory behind them: who touches one is ended.
class addresses {
 public:
  explicit addresses(std::size_t bytes) : bytes_(bytes + 1) {
    where_ = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (where_ == MAP_FAILED)
      throw error(errc::out_of_memory,
                  "a buffer of " + std::to_string(bytes) + " bytes does not fit the address space");
  }
  addresses(addresses const&) = delete;
  ~addresses() { ::munmap(where_, bytes_); }
  std::byte* data() const { return static_cast<std::byte*>(where_); }

 private:
  std::size_t bytes_;
  void* where_;
};

// What has become of all ranks.
inline void look_at(simulated& world, simulation& result) {
  for (int r = 0; r < world.size(); ++r) {
    simulated_end end{status::ready, {}, {}, 0, 0, 0};
    world.each_link(r, [&end](simulated::link const& link) {
      if (link.state() != status::ready) end.how = link.state();
      end.at = std::max(end.at, link.clock());
      end.waited += link.waited();
      end.slices += link.slices(), end.bytes += link.bytes(), end.lost += link.lost();
    });
    result.ended = std::max(result.ended, end.at);
    result.ranks.push_back(end);
  }
  if (world.why() != nullptr) result.why = *world.why();
}

// @param buffers_of gives a rank's buffers
template <schedule S, worker Worker, class T, class Op, class Buffers>
simulation simulate(simulated& world, Buffers buffers_of, pipelining pipe, Op const& op) {
  using operation = ring_operation<S, arithmetic<T, Op>, simulated::link, Worker>;
  if (pipe.width < 1 || pipe.depth < 1)
    throw error(errc::invalid_argument, "a slice has no elements, or none is under way: give at least 1 of each");
  if (std::size_t const slot = world.how().slot_bytes; slot != 0 && pipe.width * sizeof(T) > slot)
    throw error(errc::invalid_argument, "a slice of " + std::to_string(pipe.width * sizeof(T)) +
                                            " bytes does not fit a slot of " + std::to_string(slot));
  std::size_t const lanes = world.lanes();
  std::deque<operation> operations;
  simulation result{};
  for (int r = 0; r < world.size(); ++r) {
    buffers<T> at = buffers_of(r);
    at.lanes = lanes;
    for (at.lane = 0; at.lane < lanes; ++at.lane) {
      auto& link = world.lane(r, at.lane);
      result.began = std::max(result.began, link.clock());
      operations.emplace_back(S{r, world.size()}, link, at, pipe, arithmetic<T, Op>(op, world.size()));
    }
  }
  world.run(
      [&](int rank, std::size_t lane) { return operations[static_cast<std::size_t>(rank) * lanes + lane].poll(); });
  look_at(world, result);
  return result;
}

}  // namespace detail

/// Runs a schedule among all ranks of a simulated ring, without elements: the engine that ships, its slices only
/// counted.
/// @tparam S the schedule
/// @param world without slots in memory (`slot_bytes` 0); clocks go on where they stand
/// @param bytes of the whole buffer
/// @param pipe slices, in bytes
/// @throws error(errc::invalid_argument) when slices or slots cannot work
template <schedule S>
simulation simulate(simulated& world, std::size_t bytes, pipelining pipe) {
  if (world.how().slot_bytes != 0)
    throw error(errc::invalid_argument, "simulated slots have memory, but there are no elements: set slot_bytes to 0");
  detail::addresses const nowhere(bytes);
  auto const buffers_of = [&](int) {
    auto* const p = reinterpret_cast<unsigned char*>(nowhere.data());
    return buffers<unsigned char>{p, p, {bytes, static_cast<std::size_t>(world.size())}};
  };
  return detail::simulate<S, detail::nobody, unsigned char>(world, buffers_of, pipe, sum{});
}

/// The same with elements: what comes out is right as well as when.
/// @tparam T the element
/// @tparam Op the operator
/// @param world with slots in memory, each large enough for a slice
/// @param memory each rank's buffers, by rank; lanes are the ring's
/// @param pipe slices, in elements
/// @throws error(errc::invalid_argument) when slices or slots cannot work
template <schedule S, class T, class Op = sum>
simulation simulate(simulated& world, std::vector<buffers<T>> const& memory, pipelining pipe, Op const& op = {}) {
  if (world.how().slot_bytes == 0)
    throw error(errc::invalid_argument, "simulated slots have no memory, but there are elements: set slot_bytes");
  if (memory.size() != static_cast<std::size_t>(world.size()))
    throw error(errc::invalid_argument, "there are buffers of " + std::to_string(memory.size()) + " ranks, but " +
                                            std::to_string(world.size()) + " ranks");
  auto const buffers_of = [&](int r) { return memory[static_cast<std::size_t>(r)]; };
  return detail::simulate<S, this_thread, T>(world, buffers_of, pipe, op);
}

}  // namespace ringlet
