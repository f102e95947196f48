// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstddef>
#include <vector>

#include "ringlet/schedule.hpp"

namespace ringlet {

/// What one rank does in one run of a schedule. A chunk is 1/n of the buffer.
struct traffic {
  int steps;     ///< entries of the schedule
  int sent;      ///< chunks sent to the next rank
  int received;  ///< chunks received from the previous rank
  int added;     ///< chunks that it adds to what it received

  friend constexpr bool operator==(traffic, traffic) = default;
};

/// Counts the traffic of a rank, by walking its schedule.
/// @tparam S any schedule
template <schedule S>
constexpr traffic traffic_of(int rank, int size) {
  S const s{rank, size};
  traffic t{s.steps(), 0, 0, 0};
  for (int k = 0; k < t.steps; ++k) {
    action const does = s[k].does;
    t.sent += does.send;
    t.received += does.receive;
    t.added += does.receive && does.reduce;
  }
  return t;
}

/// Something that one rank sends to another.
struct transfer {
  int from, to;
  int chunks;  ///< how much, in chunks; may be 0
};

/// All transfers of a collective, as a closed form: a value without memory, like a schedule. `p.size()` ranks make
/// `p.count()` transfers, and `p[i]` is one of them, in no order.
template <class P>
concept transfers = requires(P const p, int i) {
  { p.size() } -> std::same_as<int>;
  { p.count() } -> std::same_as<int>;
  { p[i] } -> std::same_as<transfer>;
};

/// The transfers of a schedule: one for each step of each rank, of one chunk where the step sends.
/// @tparam S any schedule
template <schedule S>
struct transfers_of {
  int ranks;

  constexpr int size() const { return ranks; }
  constexpr int count() const { return ranks * steps(); }
  constexpr transfer operator[](int i) const {
    int const rank = i / steps();
    return {rank, (rank + 1) % ranks, S{rank, ranks}[i % steps()].does.send ? 1 : 0};
  }

 private:
  constexpr int steps() const { return S{0, ranks}.steps(); }
};

/// The other way to all-reduce, as a measure for the ring: rank 0 is in charge, collects every buffer, adds them up and
/// sends the sum back to everyone.
struct collector {
  int ranks;

  constexpr int size() const { return ranks; }
  constexpr int count() const { return 2 * (ranks - 1); }
  constexpr transfer operator[](int i) const {
    int const other = i / 2 + 1;
    return i % 2 == 0 ? transfer{other, 0, ranks} : transfer{0, other, ranks};
  }
};

/// The chunks that the busiest rank sends, or that the busiest connection carries.
struct load {
  int sent;     ///< by the rank that sends most
  int carried;  ///< where each rank has one connection: all that a rank sends and receives, both directions added
};

/// Counts who has to carry most. Divide by the number of ranks to have it in buffers.
constexpr load busiest(transfers auto p) {
  std::vector<load> ranks(static_cast<std::size_t>(p.size()), load{0, 0});
  load most{0, 0};
  for (int i = 0; i < p.count(); ++i) {
    transfer const t = p[i];
    load &from = ranks[static_cast<std::size_t>(t.from)], &to = ranks[static_cast<std::size_t>(t.to)];
    from.sent += t.chunks, from.carried += t.chunks, to.carried += t.chunks;
    most.sent = most.sent < from.sent ? from.sent : most.sent;
    for (int carried : {from.carried, to.carried}) most.carried = most.carried < carried ? carried : most.carried;
  }
  return most;
}

/// What a link and a rank cost, as a straight line (Hockney, "The communication challenge for MPP", 1994).
struct link_cost {
  double alpha;  ///< seconds until a message of no bytes has arrived
  double beta;   ///< seconds a byte takes on the link; the two directions do not disturb each other
  double gamma;  ///< seconds a rank takes to add up one byte
};

/// Seconds in which two neighbours exchange messages of so many bytes.
constexpr double exchange_time(double bytes, link_cost c) { return c.alpha + bytes * c.beta; }

/// Seconds that a schedule takes when all ranks start at once and do the same amount, as on the ring.
///
/// With one slice a chunk it is what Thakur, Rabenseifner and Gropp give ("Optimization of collective communication
/// operations in MPICH", 2005): for an all-reduce of m bytes 2(n-1) alpha + 2(n-1)/n m beta + (n-1)/n m gamma.
/// With more slices, a slice travels on while the next one arrives. Then the link is never idle once a chunk takes it
/// longer than one slice needs to come across, and what remains is m beta 2(n-1)/n, the least that any algorithm can do
/// (Patarasuk and Yuan, 2009), and one slice's way. Exact in this model where adding is not slower than the link.
/// @param t what each rank does, from `traffic_of`
/// @param chunk_bytes bytes in a chunk: the buffer divided by the number of ranks
/// @param slices how many slices a chunk is cut into, at least 1
constexpr double schedule_time(traffic t, double chunk_bytes, link_cost c, int slices = 1) {
  double const slice = chunk_bytes / slices;
  auto across = [&](bool adds) { return c.alpha + slice * (c.beta + (adds ? c.gamma : 0)); };
  auto period = [&](bool adds) {  // from the first slice of a step to the first of the next
    double const busy = chunk_bytes * (adds && c.gamma > c.beta ? c.gamma : c.beta);
    return busy > across(adds) ? busy : across(adds);
  };
  if (t.sent == 0) return 0;
  bool const last = t.added == t.sent;  // the last step: its last slice must have come across
  return t.added * period(true) + (t.sent - t.added) * period(false) - period(last) +
         (slices - 1) * slice * (last && c.gamma > c.beta ? c.gamma : c.beta) + across(last);
}

/// Seconds that a broadcast or reduce takes: a slice's way through all ranks, and then, at the pace of the slower of
/// link and adding, the slices behind it.
/// @param bytes in the whole buffer
/// @param slices how many slices the buffer is cut into, at least 1
/// @param adds whether it is a reduce
constexpr double pipeline_time(int size, double bytes, link_cost c, int slices, bool adds) {
  double const slice = bytes / slices, gamma = adds ? c.gamma : 0, slower = gamma > c.beta ? gamma : c.beta;
  return size == 1 ? 0 : (size - 1) * (c.alpha + slice * (c.beta + gamma)) + (slices - 1) * slice * slower;
}

/// Seconds that the collector takes: all buffers come in through its one connection, one after the other, each is added
/// up while the next one comes in, and all sums go out through it.
/// @param bytes in the whole buffer
constexpr double collector_time(int size, double bytes, link_cost c) {
  if (size == 1) return 0;
  double const slower = c.gamma > c.beta ? c.gamma : c.beta;
  return 2 * c.alpha + bytes * (c.beta + (size - 2) * slower + c.gamma + (size - 1) * c.beta);
}

/// Algorithm bandwidth as nccl-tests defines it (its doc/PERFORMANCE.md), in bytes a second.
/// @param bytes in the whole buffer, whatever the collective
constexpr double algbw(double bytes, double seconds) { return bytes / seconds; }

/// Bus bandwidth divided by algorithm bandwidth (nccl-tests, doc/PERFORMANCE.md): the part of the buffer that each rank
/// has to send, so that busbw compares with the speed of a link whatever the number of ranks.
constexpr double busbw_factor(collective what, int size) {
  double const once = static_cast<double>(size - 1) / size;
  if (what == collective::barrier) return 0;
  if (rooted(what) || what == collective::message) return 1;
  return what == collective::all_reduce ? 2 * once : once;
}

}  // namespace ringlet
