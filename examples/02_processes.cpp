// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a framework does: ranks from its launcher, or of its own; errors instead of hangs.
//
//     build/examples/02_processes                                    forks four ranks
//     mpirun -n 2 build/examples/02_processes                        likewise torchrun, srun and hydra's mpiexec
#include <chrono>
#include <cstdio>
#include <vector>

#include "ringlet/ringlet.hpp"
#if __has_include(<asio.hpp>)
#include "ringlet/bootstrap/from_environment.hpp"  // ranks meet over TCP, which needs Asio
#endif

using namespace std::chrono_literals;

// A few steps of training. Returns what main() does.
template <class Who>
int train(Who const& who, int rank_that_leaves) try {
  ringlet::connect_options<ringlet::shared_memory> options;
  options.connect_timeout = 20s;  // for all ranks to come; who is missing then is named
  options.timeout = 5s;           // for any wait afterwards; a rank that has died is noticed much sooner
  auto comm = ringlet::connect<ringlet::shared_memory>(who, options);

  std::vector<float> gradient(1 << 16);
  for (int step = 0; step < 3; ++step) {
    gradient.assign(gradient.size(), static_cast<float>(step + comm.rank()));
    if (step == 2 && comm.rank() == rank_that_leaves) return 0;  // too early: the others need it
    ringlet::all_reduce(comm, gradient, ringlet::average{});
  }
  if (comm.rank() == 0) std::printf("trained among %d ranks, the last gradient is %g\n", comm.size(), gradient[0]);
  return rank_that_leaves < 0 ? 0 : 1;
} catch (ringlet::error const& e) {
  // The communicator is finished, on every rank. Save what is worth it and leave, so that the launcher starts anew; or
  // connect those who are left, over another store.
  std::printf("rank %d gives up: %s\n", who.rank, e.what());
  bool const expected = e.why() == ringlet::errc::peer_lost && e.peer() == rank_that_leaves;
  return expected ? 0 : 1;
}

int main() {
#if __has_include(<asio.hpp>)
  if (ringlet::environment().launcher != "none") {
    ringlet::launched_rank me = ringlet::from_environment(std::chrono::steady_clock::now() + 20s);
    return train(me.bootstrap(), -1);
  }
#endif
  int const well = ringlet::launch(4, [](auto who) { return train(who, -1); });
  // Once more, and this time rank 2 leaves in the middle. Nobody hangs: the others are told who it was.
  int const told = ringlet::launch(4, [](auto who) { return train(who, 2); });
  return well + told;
}
