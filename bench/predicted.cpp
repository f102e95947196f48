// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Predicted against measured: what the links of shared_memory cost is measured on the links, then an all_reduce is
// simulated with that, and timed. In a ring of processes the processors are the wire: sums and copies take turns on
// them, so this is where the model fits worst. tests/hosts/predicted_test.cpp does the same over network cables.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdio>

#include "predicted.hpp"
#include "ringlet/bootstrap/launch.hpp"
#include "ringlet/transport/shared_memory.hpp"

int main(int argc, char** argv) {
  using ringlet::shared_memory;
  int ranks = 2;
  std::size_t least = std::size_t{64} << 10, most = std::size_t{16} << 20;
  CLI::App app("Sets simulated times of an all_reduce over shared memory beside measured ones.", "predicted");
  app.add_option("--ranks", ranks, "Processes, pinned")->check(CLI::Range(2, 64))->capture_default_str();
  app.add_option("-b,--minbytes", least, "Smallest size")->transform(CLI::AsSizeValue(false))->capture_default_str();
  app.add_option("-e,--maxbytes", most, "Largest size")->transform(CLI::AsSizeValue(false))->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return ringlet::launch(ranks,
                         [&](auto who) {
                           ringlet::connect_options<shared_memory> options;
                           options.select = {.one_shot_bytes = 0, .staged_bytes = 0};  // everything goes round the ring
                           auto comm = ringlet::connect<shared_memory>(who, options);
                           measured_link const c = link_meter(comm).measure(64 << 10, 2000, 2000);
                           if (comm.rank() == 0)
                             std::printf(
                                 "# alpha %.3f us, beta %.3f ns a byte, gamma %.3f ns a byte\n#   size (B)   predicted "
                                 "(us)   measured (us)   off\n",
                                 c.alpha * 1e6, c.beta * 1e9, c.gamma * 1e9);
                           for (std::size_t bytes = least; bytes <= most; bytes *= 4) {
                             double const p = predicted(comm.transport(), comm.size(), bytes, c);
                             double const m = measured(comm, bytes, std::clamp(static_cast<int>(0.3 / p), 5, 1000));
                             if (comm.rank() == 0)
                               std::printf("%12zu   %14.1f   %13.1f   %+.0f %%\n", bytes, p * 1e6, m * 1e6,
                                           100 * (p / m - 1));
                           }
                         },
                         {.pin = true});
}
