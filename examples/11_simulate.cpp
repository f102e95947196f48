// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rings that no machine here could run: the engine on a virtual clock, with wires, loss, a slow and a dead rank to
// order.
//
//     build/examples/11_simulate [RANKS]
#include <cstdio>
#include <cstdlib>

#include "ringlet/cost.hpp"
#include "ringlet/simulate.hpp"

using ring = ringlet::ring_schedule<ringlet::collective::all_reduce>;

// All-reduces 1 MiB a rank, 8 slices a chunk.
static ringlet::simulation run(ringlet::simulated::settings const& how) {
  ringlet::simulated world(how);  // a world is used up by what happens in it
  std::size_t const bytes = static_cast<std::size_t>(how.ranks) << 20;
  return ringlet::simulate<ring>(world, bytes, {.width = (1 << 20) / 8, .depth = 8});
}

int main(int argc, char** argv) {
  int const ranks = argc > 1 ? std::atoi(argv[1]) : 256;
  if (ranks < 4) return std::fprintf(stderr, "%s: RANKS must be at least 4\n", argv[0]), 2;

  // 25 GB/s and 5 us a link; 1 TB/s for sums.
  ringlet::simulated::settings how{
      .ranks = ranks, .slots = 16, .wires = {{.alpha = 5e-6, .beta = 1 / 25e9}}, .members = {{.gamma = 1e-12}}};
  auto const good = run(how);
  double const form = ringlet::schedule_time(ringlet::traffic_of<ring>(0, ranks), 1 << 20, {5e-6, 1 / 25e9, 1e-12}, 8);
  std::printf("%-34s %8.2f ms, by the closed form %.2f\n", "all is well", good.seconds() * 1e3, form * 1e3);

  auto lossy = how;
  lossy.wires[0].loss = 1e-4, lossy.wires[0].resend_after = 1e-3;
  std::printf("%-34s %8.2f ms\n", "one slice of 10,000 is lost", run(lossy).seconds() * 1e3);

  auto crossed = how;  // the first two links share one wire, all others have their own
  for (std::size_t link = 0; link < static_cast<std::size_t>(ranks); ++link) {
    crossed.over.push_back(link < 2 ? 0 : link);
    crossed.wires.resize(link + 1, how.wires[0]);
  }
  std::printf("%-34s %8.2f ms\n", "two links share a wire", run(crossed).seconds() * 1e3);

  auto slow = how;
  slow.members.resize(static_cast<std::size_t>(ranks), how.members[0]);
  slow.members[2].gamma = 1 / 12.5e9;
  std::printf("%-34s %8.2f ms\n", "rank 2 adds at 12.5 GB/s", run(slow).seconds() * 1e3);

  auto dead = how;
  dead.members.resize(static_cast<std::size_t>(ranks), how.members[0]);
  dead.members[3].dies_at = good.seconds() / 2;
  dead.timeout = 1;
  auto const failed = run(dead);
  std::printf("%-34s %8.2f ms: %s\n", "rank 3 dies half-way", failed.seconds() * 1e3,
              failed.why ? failed.why->words : "");
  return good.why || !failed.why ? 1 : 0;
}
