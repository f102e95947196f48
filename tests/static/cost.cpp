// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/cost.hpp"

using namespace ringlet;

using all_reduce_ring = ring_schedule<collective::all_reduce>;
using reduce_scatter_ring = ring_schedule<collective::reduce_scatter>;
using all_gather_ring = ring_schedule<collective::all_gather>;

template <class Holds>
constexpr bool for_all_sizes(Holds holds) {
  for (int n = 1; n <= 128; ++n)
    if (!holds(n)) return false;
  return true;
}

// --- the ring: what each rank does, for 1 to 128 ranks ---

// All ranks of up to 16 and the outermost of more: the rank is in no formula but the chunk's.
template <schedule S>
constexpr bool every_rank_does(traffic (*expected)(int size)) {
  return for_all_sizes([expected](int n) {
    for (int rank = 0; rank < n; rank += n <= 16 || n == 1 ? 1 : n - 1)
      if (traffic_of<S>(rank, n) != expected(n)) return false;
    return true;
  });
}

// In an all-reduce each rank sends 2(n-1) chunks of n, which is 2(n-1)/n of the buffer, and receives as many. Nobody
// more.
static_assert(every_rank_does<all_reduce_ring>([](int n) {
  return traffic{2 * n - 1, 2 * (n - 1), 2 * (n - 1), n - 1};
}));
// In a reduce-scatter n-1 chunks, and each one received is added to.
static_assert(every_rank_does<reduce_scatter_ring>([](int n) { return traffic{n, n - 1, n - 1, n - 1}; }));
// In an all-gather n-1 chunks, and nothing is added.
static_assert(every_rank_does<all_gather_ring>([](int n) { return traffic{n, n - 1, n - 1, 0}; }));

// Counting the transfers of all ranks takes the compiler long: up to 16 ranks, and some more.
template <class Holds>
constexpr bool for_some_sizes(Holds holds) {
  for (int n : {33, 128})
    if (!holds(n)) return false;
  for (int n = 1; n <= 16; ++n)
    if (!holds(n)) return false;
  return true;
}

// In a broadcast each link but the last carries the buffer once, and in a reduce, which adds it up on its way.
static_assert(for_some_sizes([](int n) {
  return busiest(transfers_of<ring_schedule<collective::broadcast>>{n}).sent == (n > 1 ? n : 0) &&
         busiest(transfers_of<ring_schedule<collective::reduce>>{n}).carried == (n > 2   ? 2
                                                                                 : n > 1 ? 1
                                                                                         : 0) *
                                                                                    n;
}));

// --- the ring against the collector, by the same count ---

static_assert(transfers<collector> && transfers<transfers_of<all_reduce_ring>>);

// The collector's one connection carries 2(n-1) buffers: 30 at 16 ranks, 254 at 128. A buffer is n chunks.
static_assert(for_all_sizes([](int n) { return busiest(collector{n}).carried == 2 * (n - 1) * n; }));
static_assert(busiest(collector{16}).carried == 30 * 16);
static_assert(busiest(collector{128}).carried == 254 * 128);
// A rank's connection in the ring carries 2(n-1)/n of a buffer out and as much in: less than 4 buffers, whatever n is.
static_assert(for_some_sizes([](int n) { return busiest(transfers_of<all_reduce_ring>{n}).carried == 4 * (n - 1); }));
// Counting only what is sent: n-1 buffers against 2(n-1)/n.
static_assert(for_all_sizes([](int n) { return busiest(collector{n}).sent == (n - 1) * n; }));
static_assert(for_some_sizes([](int n) { return busiest(transfers_of<all_reduce_ring>{n}).sent == 2 * (n - 1); }));

// --- times; powers of two, so that nothing is rounded ---

constexpr link_cost wire{1.0 / 1024, 1.0 / (1 << 20), 1.0 / (1 << 22)};
constexpr double mega = 1 << 20;

static_assert(exchange_time(0, wire) == wire.alpha);
static_assert(exchange_time(mega, wire) == wire.alpha + 1);

// One slice a chunk: Thakur's formula, here for 4 ranks and 1 MiB.
constexpr traffic of_four = traffic_of<all_reduce_ring>(0, 4);
static_assert(schedule_time(of_four, mega / 4, wire) ==
              6 * wire.alpha + 1.5 * mega * wire.beta + 0.75 * mega * wire.gamma);
static_assert(schedule_time(traffic_of<all_gather_ring>(0, 4), mega / 4, wire) ==
              3 * wire.alpha + 0.75 * mega * wire.beta);
static_assert(schedule_time(traffic_of<reduce_scatter_ring>(0, 4), mega / 4, wire) ==
              3 * wire.alpha + 0.75 * mega * (wire.beta + wire.gamma));
// A world of one sends nothing.
static_assert(schedule_time(traffic_of<all_reduce_ring>(0, 1), mega, wire) == 0 && collector_time(1, mega, wire) == 0);

// Walks the model slice after slice: when each leaves, when the link is free again, when it has come across.
constexpr double walked(traffic t, double chunk_bytes, link_cost c, int slices) {
  double const slice = chunk_bytes / slices;
  std::vector<double> arrived(static_cast<std::size_t>(slices), 0.0);
  double free = 0, added = 0;
  for (int k = 0; k < t.sent; ++k)
    for (double& at : arrived) {
      double const leaves = at > free ? at : free;
      free = leaves + slice * c.beta;
      at = free + c.alpha;
      if (k < t.added) at = added = (at > added ? at : added) + slice * c.gamma;
    }
  return arrived.back();
}
// The closed form is that walk.
static_assert([] {
  for (int n : {2, 3, 4, 16})
    for (int slices : {1, 2, 16})
      for (double chunk : {64.0, 65536.0, mega})
        for (traffic t : {traffic_of<all_reduce_ring>(0, n), traffic_of<reduce_scatter_ring>(0, n),
                          traffic_of<all_gather_ring>(0, n)})
          if (schedule_time(t, chunk, wire, slices) != walked(t, chunk, wire, slices)) return false;
  return true;
}());
// With many slices little more than the least time remains: each rank must send 2(n-1)/n of the buffer.
static_assert(schedule_time(of_four, mega / 4, wire, 64) < 1.01 * 1.5 * mega * wire.beta);
static_assert(schedule_time(of_four, mega / 4, wire, 64) > 1.5 * mega * wire.beta);

// A pipeline from root to last, walked rank after rank: when a slice is there, and when the link is free again.
constexpr double walked_pipeline(int size, double bytes, link_cost c, int slices, bool adds) {
  double const slice = bytes / slices;
  std::vector<double> there(static_cast<std::size_t>(slices), 0.0);
  for (int rank = 1; rank < size; ++rank) {
    double free = 0, added = 0;
    for (double& at : there) {
      free = (at > free ? at : free) + slice * c.beta;
      at = free + c.alpha;
      if (adds) at = added = (at > added ? at : added) + slice * c.gamma;
    }
  }
  return there.back();
}
static_assert([] {
  for (int n : {1, 2, 3, 8})
    for (int slices : {1, 2, 16})
      for (bool adds : {false, true})
        if (pipeline_time(n, mega, wire, slices, adds) != walked_pipeline(n, mega, wire, slices, adds)) return false;
  return true;
}());
static_assert(busbw_factor(collective::broadcast, 4) == 1 && busbw_factor(collective::reduce, 4) == 1);

// The collector is slower the more ranks there are; the ring of 128 takes hardly longer than that of 4.
static_assert(collector_time(4, mega, wire) == 2 * wire.alpha + 6 + 0.25);
static_assert(collector_time(128, mega, wire) > 40 * collector_time(4, mega, wire));
static_assert(schedule_time(traffic_of<all_reduce_ring>(0, 128), mega / 128, wire, 4) <
              1.5 * schedule_time(of_four, mega / 4, wire, 4));

// --- nccl-tests' figures (doc/PERFORMANCE.md) ---

static_assert(algbw(8e9, 2) == 4e9);
static_assert(busbw_factor(collective::all_reduce, 4) == 1.5);
static_assert(busbw_factor(collective::reduce_scatter, 4) == 0.75);
static_assert(busbw_factor(collective::all_gather, 4) == 0.75);
static_assert(busbw_factor(collective::barrier, 4) == 0);
static_assert(for_some_sizes([](int n) {  // the factor is the part of the buffer that each rank sends
  return n * busbw_factor(collective::all_reduce, n) == traffic_of<all_reduce_ring>(0, n).sent;
}));
