// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What it costs to simulate: one all_reduce, 64 slices a chunk, among more and more ranks. Seconds of one core, and the
// memory of the process.

#include <sys/resource.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "ringlet/cost.hpp"
#include "ringlet/simulate.hpp"

int main(int argc, char** argv) {
  using ring = ringlet::ring_schedule<ringlet::collective::all_reduce>;
  int const most = argc > 1 ? std::atoi(argv[1]) : 1024;
  constexpr std::size_t slices = 64, width = 4096;
  std::printf("# ranks   slices sent   seconds   ns a slice   peak MiB   virtual ms   closed form\n");
  for (int n = 64; n <= most; n *= 2) {
    ringlet::simulated world(
        {.ranks = n, .slots = 2 * slices, .wires = {{.alpha = 2e-6, .beta = 4e-11}}, .members = {{.gamma = 1e-11}}});
    auto const run = ringlet::simulate<ring>(world, width * slices * static_cast<std::size_t>(n), {width, slices});
    std::size_t sent = 0;
    for (auto const& r : run.ranks) sent += r.slices;
    rusage used;
    ::getrusage(RUSAGE_SELF, &used);
    static double before = 0;
    double const all = static_cast<double>(used.ru_utime.tv_sec) + static_cast<double>(used.ru_utime.tv_usec) / 1e6;
    double const closed = ringlet::schedule_time(ringlet::traffic_of<ring>(0, n), width * slices, {2e-6, 4e-11, 1e-11},
                                                 static_cast<int>(slices));
    std::printf("%7d   %11zu   %7.2f   %10.1f   %8.1f   %10.3f   %11.3f\n", n, sent, all - before,
                (all - before) * 1e9 / static_cast<double>(sent), static_cast<double>(used.ru_maxrss) / 1024,
                run.seconds() * 1e3, closed * 1e3);
    before = all;
  }
}
