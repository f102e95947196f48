// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringlet/clock.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/error.hpp"
#include "ringlet/simulate.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/transport/simulated.hpp"
#include "ringlet/transport/simulated_ring.hpp"

namespace ringlet {

/// Runs a program of all ranks on a virtual clock, in one thread: `f(comm)` as each of them, with a communicator over
/// `simulated_ring`. Collectives, asynchronous ones, barriers, buckets: all is as it will be, but for the time.
/// `comm.transport().compute(seconds)` is computation, and goes between polls; a loop that polls and does not compute
/// never lets the others run. A rank that has died finds itself in an error when all others have come to their ends.
/// There is no `split`. What a program has sent and not received, the next one in that world finds. Messages have a
/// wire each way to themselves, whatever `over` says. `counters().waited` is real time; `waited` of the result is not.
///
/// @code
/// ringlet::simulated world({.ranks = 64, .slot_bytes = 1 << 16, .wires = {{.alpha = 2e-6, .beta = 1 / 25e9}}});
/// auto const run = ringlet::simulate_program(world, [](auto& comm) {
///   std::vector<float> gradient(1 << 20);
///   auto exchange = ringlet::async_all_reduce(comm, gradient);
///   while (exchange.poll() == ringlet::status::pending) comm.transport().compute(20e-6);
/// });
/// std::printf("%g s\n", run.seconds());
/// @endcode
/// @param world with slots in memory (`slot_bytes` is not 0)
/// @param f called as `f(comm)`, `comm` a `communicator<simulated_ring>&`, on a stack of 256 KiB
/// @return how each rank ended, `failed` where `f` threw an error of the ring's
/// @throws error(errc::invalid_argument) when the world has no memory, its ranks share processors, or it has failed
/// @throws whatever else `f` throws, that of the lowest rank
template <class F>
simulation simulate_program(simulated& world, F&& f) {
  if (world.how().slot_bytes == 0)
    throw error(errc::invalid_argument, "simulated slots have no memory, but a program has elements: set slot_bytes");
  if (world.why() != nullptr)
    throw error(errc::invalid_argument, "this ring has failed before, and is over: make another");
  if (world.how().processors != 0)
    throw error(errc::invalid_argument, "a program's ranks have a processor each: set processors to 0");
  struct place {
    int at, of;
    int rank() const { return at; }
    int size() const { return of; }
    std::uint64_t token() const { return 1; }
    std::vector<std::string> exchange(std::string_view, std::string const&, time_point) const {
      throw error(errc::unsupported, "simulated ranks meet nowhere else");
    }
  };
  auto const n = static_cast<std::size_t>(world.size());
  detail::fibers ranks(n);
  std::vector<std::exception_ptr> thrown(n);
  simulation result{};
  for (int r = 0; r < world.size(); ++r) result.began = std::max(result.began, world.clock(r));
  world.run([&](int rank) {
    auto const i = static_cast<std::size_t>(rank);
    bool const goes_on = ranks.resume(i, [&, rank, i] {
      try {
        place here{rank, world.size()};
        connect_options<simulated_ring> options;
        options.transport = {&world, &ranks};
        options.timeout = std::chrono::hours(24);  // the world's own is virtual
        communicator<simulated_ring> comm(here, options);
        f(comm);
      } catch (...) {
        thrown[i] = std::current_exception();
      }
    });
    return goes_on ? status::pending : thrown[i] ? status::failed : status::ready;
  });
  for (auto const& what : thrown) try {
      if (what) std::rethrow_exception(what);
    } catch (error const& e) {
      if (world.why() == nullptr || e.why() == errc::invalid_argument) throw;  // not the ring's
    }
  detail::look_at(world, result);
  return result;
}

}  // namespace ringlet
