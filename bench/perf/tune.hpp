// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "../timing.hpp"
#include "options.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/store.hpp"
#include "ringlet/transport/fabric_wire.hpp"
#include "ringlet/transport/shared_memory.hpp"
#include "settings.hpp"

namespace perf {

/// Says which route each size takes, and why.
inline void explain(options const& o) {
  auto const s = settings_for<ringlet::shared_memory>(o);
  std::printf("# ranks: %d buffers: %s %s\n#\n", o.ranks, o.allocated ? "allocated" : "ordinary",
              o.select.describe().c_str());
  std::printf("# %12s  %-8s  why\n", "size", "route");
  for (std::size_t bytes = o.least; bytes <= o.most; bytes = o.next(bytes)) {
    bool const threads = o.transport == "in_process", mapped = threads || o.transport == "shared_memory";
    bool const in_reach = threads || o.allocated;
    bool const has_root = o.collective == "broadcast" || o.collective == "reduce";
    std::size_t const part = (bytes + static_cast<std::size_t>(o.ranks) - 1) / static_cast<std::size_t>(o.ranks);
    std::size_t const input = o.collective == "all_gather" ? part : bytes;
    auto const route = mapped ? o.select.choose(input, bytes, o.ranks, in_reach, s.board_bytes,
                                                !has_root && ringlet::stage_row(s.stage_bytes, o.ranks) != 0)
                              : ringlet::route::ring;
    ringlet::fabric_shape shape;
    shape.slot_bytes = o.slot_bytes.value_or(shape.slot_bytes);
    if (o.transport == "fabric" && o.ranks > 1 && !has_root && input <= shape.most_by_chords(o.ranks)) {
      std::printf("  %12zu  %-8s  a rank's input, %zu B, is at most chord_bytes\n", bytes, "chords", input);
      continue;
    }
    std::string why;
    switch (route) {
      case ringlet::route::one_shot:
        why = input <= o.select.one_shot_bytes
                  ? "a rank's input, " + std::to_string(input) + " B, is at most one_shot_bytes"
                  : "out of the others' reach, whose input is together at most boarded_bytes";
        break;
      case ringlet::route::direct: why = "all ranks can reach this memory"; break;
      case ringlet::route::staged: why = "at most staged_bytes, and out of the others' reach"; break;
      case ringlet::route::ring:
        why = !mapped    ? "ranks of this transport share no memory"
              : has_root ? "out of the others' reach"
                         : "above staged_bytes, and out of the others' reach";
    }
    std::printf("  %12zu  %-8s  %s\n", bytes, ringlet::to_string(route), why.c_str());
  }
}

/// What two routes took at one size.
struct contest {
  std::size_t bytes;
  double first, second;  ///< seconds
};

/// The bound below which the first route is to be taken: the one that loses least, over all sizes, against the better
/// of the two at each. Without any size, `otherwise`.
inline std::size_t bound(std::vector<contest> const& all, std::size_t otherwise) {
  if (all.empty()) return otherwise;
  std::size_t best = 0;
  double least = HUGE_VAL;
  for (std::size_t i = 0; i <= all.size(); ++i) {
    double lost = 0;
    for (std::size_t k = 0; k < all.size(); ++k)
      lost += std::log((k < i ? all[k].first : all[k].second) / std::min(all[k].first, all[k].second));
    if (lost < least) least = lost, best = i == 0 ? 0 : all[i - 1].bytes;
  }
  return best;
}

/// Puts the selection for so many ranks into a file, in the place of what it says of that number.
inline void write_line(std::string const& file, int ranks, ringlet::selection const& s) {
  std::string const mine = "ranks=" + std::to_string(ranks) + " ";
  std::string text;
  std::ifstream from(file);
  for (std::string line; std::getline(from, line);)
    if (line.rfind(mine, 0) != 0) text += line + "\n";
  std::ofstream to(file);
  to << text << mine << s.describe() << "\n";
  if (!to.flush()) throw std::runtime_error("cannot write " + file);
}

/// Finds the selection for this machine and number of ranks, and writes it into the file's line for that number. All
/// ranks call it; rank 0 says what it does.
/// @tparam S the store
template <ringlet::store S>
int tune(ringlet::bootstrap<S> who, options const& o) {
  auto const forced = [&](char const* name, ringlet::selection s) {
    ringlet::connect_options<ringlet::shared_memory> how;
    how.transport = settings_for<ringlet::shared_memory>(o);
    how.select = s;
    ringlet::prefixed store(who.store, name);
    return ringlet::connect<ringlet::shared_memory>(ringlet::bootstrap<decltype(store)>{who.rank, who.size, store},
                                                    how);
  };
  std::size_t const all = ~std::size_t{0};
  auto shot = forced("one-shot/", {all, 0, 0}), staged = forced("staged/", {0, 0, all}),
       large = forced("large/", {0, 0, 0});

  auto const time_of = [&](auto& comm, auto& x) {
    int const calls = static_cast<int>(std::clamp<std::size_t>((std::size_t{4} << 20) / (4 * x.size()), 2, 500));
    ringlet::all_reduce(comm, x, ringlet::maximum{});
    double seconds = seconds_of(calls, [&] { ringlet::all_reduce(comm, x); });
    ringlet::all_reduce(comm, std::span(&seconds, 1), ringlet::maximum{});
    return seconds;
  };
  auto const time = [&](auto& comm, std::size_t count, bool allocated) {
    if (allocated) {
      auto x = comm.template allocate<float>(count);
      return time_of(comm, x);
    }
    std::vector<float> x(count);
    return time_of(comm, x);
  };
  // In turn, so that what else the machine does meets both; medians.
  auto const compare = [&](auto& first, auto& second, char const* names, bool allocated, std::size_t least,
                           std::size_t most) {
    if (who.rank == 0)
      std::printf("# %12s  %s  (us, %s memory)\n", "size", names, allocated ? "allocated" : "ordinary");
    std::vector<contest> found;
    for (std::size_t bytes = least; bytes <= most; bytes *= 2) {
      std::vector<double> a, b;
      std::size_t const count = bytes / sizeof(float);
      for (int round = 0; round < 9; ++round)
        a.push_back(time(first, count, allocated)), b.push_back(time(second, count, allocated));
      found.push_back({bytes, median(a), median(b)});
      if (who.rank == 0)
        std::printf("  %12zu  %10.2f  %10.2f\n", bytes, 1e6 * found.back().first, 1e6 * found.back().second),
            std::fflush(stdout);
    }
    return found;
  };

  ringlet::selection best;
  std::size_t const board = settings_for<ringlet::shared_memory>(o).board_bytes;
  auto const others = static_cast<std::size_t>(std::max(1, who.size - 1));
  best.one_shot_bytes = bound(compare(shot, large, "  one-shot      direct", true, 8, board), best.one_shot_bytes);
  best.boarded_bytes =
      others * bound(compare(shot, staged, "  one-shot      staged", false, 8, board), best.boarded_bytes / others);
  best.staged_bytes =
      bound(compare(staged, large, "    staged        ring", false, std::size_t{64} << 10, o.most), best.staged_bytes);
  if (who.rank == 0) {
    write_line(o.tune, who.size, best);
    std::printf("# %s: ranks=%d %s\n", o.tune.c_str(), who.size, best.describe().c_str());
  }
  return 0;
}

}  // namespace perf
