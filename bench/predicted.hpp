// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringlet/all_reduce.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/collective_operation.hpp"
#include "ringlet/simulate.hpp"
#include "timing.hpp"

// What a ring's links cost, as measured on the links themselves, and how long an all-reduce takes by that. Nothing is
// fitted to the all-reduces.

/// Seconds, and seconds a byte.
struct measured_link {
  double alpha, beta, gamma;
  double overhead = 0;  ///< as simulated ranks have it; then alpha is without
  double burst = 0;     ///< as simulated wires have it
};

/// Uses the links of a communicator that is at rest, as all its ranks do at once.
/// @tparam Comm the communicator, of one lane at least
template <class Comm>
class link_meter {
 public:
  explicit link_meter(Comm& comm) : comm_(comm), link_(comm.transport().lane(0)) {}

  /// Alpha: a slice of 8 bytes goes round, alone; what a hop takes, the median. Beta: all ranks send and receive as
  /// much as they can, in slices of `bytes`; what four times as many take longer, so that start and end do not count,
  /// in the least time, since all that disturbs only adds. Gamma: what adding up a slice takes.
  measured_link measure(std::size_t bytes, int slices, int rounds) {
    bytes = std::min(bytes, comm_.transport().slot_bytes());
    std::vector<double> hops, once, four_times;
    stream(bytes, slices);  // connections get up speed
    for (int i = 0; i < 5; ++i) {
      hops.push_back(hop(rounds));
      once.push_back(stream(bytes, slices));
      four_times.push_back(stream(bytes, 4 * slices));
    }
    auto const least = [](auto const& times) { return *std::min_element(times.begin(), times.end()); };
    double const longer = least(four_times) - least(once);
    return {median(hops), longer / (3 * slices) / static_cast<double>(bytes), add(bytes)};
  }
  /// What a slice takes the processor of its sender, and again that of its receiver, while all ranks send and receive
  /// with `depth` slices under way: half of the processor time that goes by, the median of five. 0 where each rank has
  /// a processor to itself: who waits polls there, and the time says nothing.
  double overhead(std::size_t bytes, int depth, int slices) {
    if (!comm_.transport().crowded()) return 0;
    std::vector<double> times;
    for (int i = 0; i < 5; ++i) {
      ringlet::barrier(comm_);
      double used = -processor_time();
      for (int sent = 0; sent < slices + depth; ++sent) {
        if (sent < slices) until([&] { return sends(bytes); });
        if (sent >= depth) until([&] { return receives(bytes); });
      }
      used += processor_time();
      ringlet::all_reduce(comm_, std::span(&used, 1), ringlet::average{});
      times.push_back(used / slices / 2);
    }
    return median(times);
  }

 private:
  using clock = std::chrono::steady_clock;
  static double since(clock::time_point begin) { return std::chrono::duration<double>(clock::now() - begin).count(); }

  // Each end once, if it can.
  bool sends(std::size_t bytes) {
    ringlet::placement const where{0, bytes, false};
    auto const to = link_.next().template try_acquire<std::byte>(where);
    if (!to) return false;
    memory_.resize(bytes);
    std::copy(memory_.begin(), memory_.end(), to.data);
    link_.next().commit();
    return true;
  }
  bool receives(std::size_t bytes) {
    ringlet::placement const where{0, bytes, false};
    auto const from = link_.prev().template try_peek<std::byte>(where);
    if (!from) return false;
    memory_.resize(bytes);
    std::copy_n(from.data, bytes, memory_.begin());
    link_.prev().release();
    return true;
  }
  // Polls, yields and rests, as operations do.
  template <class F>
  void until(F once) {
    auto& x = comm_.transport();
    int yields = 2000;
    if constexpr (requires { x.yields; }) yields = static_cast<int>(x.yields);
    for (int left = x.crowded() ? 10 : 2000; !once(); --left) {
      if (link_.broken()) throw ringlet::error(ringlet::errc::aborted, "the ring is broken");
      if (left > 0) continue;
      if (left > -yields)
        ::sched_yield();
      else
        x.rest();
    }
  }
  static double processor_time() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

  double hop(int rounds) {
    ringlet::barrier(comm_);
    auto const begin = clock::now();
    for (int i = 0; i < rounds; ++i) {
      if (comm_.rank() == 0) until([&] { return sends(8); });
      until([&] { return receives(8); });
      if (comm_.rank() != 0) until([&] { return sends(8); });
    }
    return all(since(begin)) / rounds / comm_.size();
  }
  double stream(std::size_t bytes, int slices) {
    ringlet::barrier(comm_);
    auto const begin = clock::now();
    for (int sent = 0, received = 0; sent < slices || received < slices;)
      until([&] {
        bool const sends_one = sent < slices && sends(bytes), receives_one = received < slices && receives(bytes);
        sent += sends_one, received += receives_one;
        return sends_one || receives_one;
      });
    while (!link_.next().drained()) {
    }
    return all(since(begin));
  }
  static double add(std::size_t bytes) {
    std::vector<float> a(bytes / sizeof(float)), b(a.size());
    ringlet::arithmetic<float, ringlet::sum> const how(ringlet::sum{}, 2);
    double best = 1;
    for (int i = 0; i < 20; ++i) {
      auto const begin = clock::now();
      ringlet::combine(ringlet::this_thread{}, a.data(), static_cast<float*>(nullptr),
                       static_cast<float const*>(a.data()), b.data(), a.size(), how, false);
      best = std::min(best, since(begin));
    }
    return best / static_cast<double>(bytes);
  }
  // The longest time of any rank.
  double all(double mine) {
    ringlet::all_reduce(comm_, std::span(&mine, 1), ringlet::maximum{});
    return mine;
  }

  Comm& comm_;
  std::remove_reference_t<decltype(std::declval<Comm&>().transport().lane(0))>& link_;
  std::vector<std::byte> memory_;
};

/// How an all-reduce of so many bytes of float is cut, in bytes.
/// @tparam X the transport
template <class X>
ringlet::pipelining slices_of(X const& transport, int ranks, std::size_t bytes) {
  ringlet::partition const chunks{bytes / sizeof(float), static_cast<std::size_t>(ranks)};
  auto pipe = ringlet::detail::slices_of(chunks.longest() / transport.lanes(), sizeof(float), transport.slots(),
                                         transport.slot_bytes());
  pipe.width *= sizeof(float);
  return pipe;
}

/// Seconds that it takes, as simulated: the engine, with the transport's slots and slices. Where slices have an
/// overhead, it is that of the processors that this process may use, which all ranks share.
/// @tparam X the transport
template <class X>
double predicted(X const& transport, int ranks, std::size_t bytes, measured_link c) {
  using ring = ringlet::ring_schedule<ringlet::collective::all_reduce>;
  cpu_set_t mine;
  ::sched_getaffinity(0, sizeof mine, &mine);
  ringlet::simulated world({.ranks = ranks,
                            .lanes = transport.lanes(),
                            .slots = transport.slots(),
                            .wires = {{.alpha = c.alpha, .beta = c.beta, .burst = c.burst}},
                            .members = {{.gamma = c.gamma, .overhead = c.overhead}},
                            .processors = c.overhead > 0 ? static_cast<std::size_t>(CPU_COUNT(&mine)) : 0});
  // One after the other, as they are measured, until wires have used up what they had saved.
  double last = 0;
  for (int i = 0; i < 10; ++i)
    last = ringlet::simulate<ring>(world, bytes, slices_of(transport, ranks, bytes)).seconds();
  return last;
}

/// Seconds that it does take: the median of `calls` one after the other, of the slowest rank.
template <class Comm>
double measured(Comm& comm, std::size_t bytes, int calls) {
  std::vector<float> x(bytes / sizeof(float));
  std::vector<double> times;
  ringlet::barrier(comm);
  for (int i = 0; i < calls; ++i) times.push_back(seconds_of(1, [&] { ringlet::all_reduce(comm, x); }));
  double mine = median(times);
  ringlet::all_reduce(comm, std::span(&mine, 1), ringlet::maximum{});
  return mine;
}
