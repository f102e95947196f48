// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The obvious way to all-reduce, as a measure for the ring: everyone sends to rank 0, which adds up and sends the sum
// back. Its one connection carries 2(n-1) buffers, more with every rank; in the ring it is less than 4, whatever n is.
// The communicator's counters say so.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "ringlet/point_to_point.hpp"
#include "ringlet/ringlet.hpp"

using communicator = ringlet::communicator<ringlet::shared_memory>;

void by_collector(communicator& comm, std::vector<float>& gradient) {
  if (comm.rank() != 0) {
    ringlet::send(comm, gradient, 0);
    return ringlet::recv(comm, gradient, 0);
  }
  std::vector<float> theirs(gradient.size());
  for (int other = 1; other < comm.size(); ++other) {
    ringlet::recv(comm, theirs, other);
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += theirs[i];
  }
  for (int other = 1; other < comm.size(); ++other) ringlet::send(comm, gradient, other);
}

// Buffers that a rank's connection carries while f runs, in and out; the most that any rank has.
template <class F>
double carried(communicator& comm, std::size_t bytes, F&& f) {
  auto const before = comm.counters();
  f();
  auto const after = comm.counters();
  std::vector<std::uint64_t> most{after.sent - before.sent + after.received - before.received};
  ringlet::all_reduce(comm, most, ringlet::maximum{});
  return static_cast<double>(most[0]) / static_cast<double>(bytes);
}

int main() {
  for (int size : {2, 4, 8, 16}) {
    int const failed = ringlet::launch(size, [](auto who) {
      auto comm = ringlet::connect<ringlet::shared_memory>(who);
      std::size_t const count = 160'000;
      std::vector<float> a(count, 1.0F), b(count, 1.0F);
      double const collector = carried(comm, 4 * count, [&] { by_collector(comm, a); });
      double const ring = carried(comm, 4 * count, [&] { ringlet::all_reduce(comm, b); });
      double const n = comm.size();
      if (comm.rank() == 0)
        std::printf("%2.0f ranks: the busiest connection carries %4.1f buffers with a collector, %.2f in a ring\n", n,
                    collector, ring);
      return a == b && a[0] == comm.size() && collector == 2 * (n - 1) && ring == 4 * (n - 1) / n ? 0 : 1;
    });
    if (failed != 0) return 1;
  }
}
