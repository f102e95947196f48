// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// C14: what it costs when a buffer does not begin at a cache line, or a count cannot be divided by the number of ranks:
// times of such all-reduces, in place, against those of aligned ones of the same size. Medians of the ratios of rounds,
// in each of which everything is measured once.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <memory>
#include <span>
#include <vector>

#include "ringlet/all_reduce.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/bootstrap/launch.hpp"
#include "ringlet/transport/shared_memory.hpp"
#include "timing.hpp"

namespace {

using ringlet::shared_memory;
using communicator = ringlet::communicator<shared_memory>;

constexpr std::size_t sizes[] = {std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{16} << 20};
constexpr std::size_t line = 64 / sizeof(float);

// How a buffer is odd, in elements.
struct oddity {
  char const* name;
  std::size_t more, offset;
  bool by_rank;  ///< the offset is times the rank's number, from 1
};
constexpr oddity oddities[] = {
    {"aligned", 0, 0, false},
    {"count + 1", 1, 0, false},
    {"offset", 0, 1, false},
    {"both, by rank", 1, 3, true},
};
constexpr std::size_t kinds = 2, variants = std::size(oddities);  // of memory

// By size, kind of memory and oddity.
using times = std::array<std::array<std::array<double, variants>, kinds>, std::size(sizes)>;

// One round: seconds of a call.
times measure(communicator& comm, float* const (&memory)[kinds]) {
  times t{};
  for (std::size_t size = 0; size < std::size(sizes); ++size)
    for (std::size_t kind = 0; kind < kinds; ++kind)
      for (std::size_t odd = 0; odd < variants; ++odd) {
        oddity const& o = oddities[odd];
        auto const factor = o.by_rank ? static_cast<std::size_t>(comm.rank()) + 1 : 1;
        std::span<float> const buffer(memory[kind] + o.offset * factor, sizes[size] / sizeof(float) + o.more);
        int const calls = std::max(2, static_cast<int>((std::size_t{32} << 20) / sizes[size]));
        ringlet::all_reduce(comm, buffer);
        ringlet::barrier(comm);
        t[size][kind][odd] = seconds_of(calls, [&] { ringlet::all_reduce(comm, buffer); });
      }
  return t;
}

}  // namespace

int main(int argc, char** argv) {
  int ranks = 2, rounds = 15;
  CLI::App app(
      "Measures all-reduces of odd counts and offsets. Exit status: 1 when one takes over 1.1 times an aligned one.",
      "odd_sizes");
  app.add_option("--ranks", ranks, "Processes, pinned")->check(CLI::Range(1, 8))->capture_default_str();
  app.add_option("-n,--rounds", rounds, "Medians of so many")->check(CLI::Range(1, 1000))->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  return ringlet::launch(ranks,
                         [&](auto who) {
                           auto comm = ringlet::connect<shared_memory>(who);
                           std::size_t const room = sizes[std::size(sizes) - 1] / sizeof(float) + 4 * line;
                           std::vector<float> ordinary(room + line);
                           auto const allocated = comm.template allocate<float>(room);
                           void* at = ordinary.data();
                           std::size_t left = ordinary.size() * sizeof(float);
                           float* const memory[kinds] = {
                               static_cast<float*>(std::align(64, room * sizeof(float), at, left)), allocated.data()};
                           std::vector<times> all;
                           for (int i = -1; i < rounds; ++i) {
                             times const t = measure(comm, memory);
                             if (i >= 0) all.push_back(t);  // the first is for warmth
                           }
                           bool kept = true;
                           if (comm.rank() != 0) return 0;
                           std::printf("%d ranks; time / time of aligned; medians of %d rounds\n%10s  %-10s", ranks,
                                       rounds, "bytes", "memory");
                           for (oddity const& o : oddities) std::printf("  %13s", o.name);
                           std::printf("\n");
                           for (std::size_t size = 0; size < std::size(sizes); ++size)
                             for (std::size_t kind = 0; kind < kinds; ++kind) {
                               std::printf("%10zu  %-10s", sizes[size], kind == 0 ? "ordinary" : "allocated");
                               for (std::size_t odd = 0; odd < variants; ++odd) {
                                 std::vector<double> values;
                                 for (times const& t : all)
                                   values.push_back(t[size][kind][odd] / (odd == 0 ? 1e-6 : t[size][kind][0]));
                                 std::printf(odd == 0 ? "  %10.2f us" : "  %13.2f", median(values));
                                 kept = kept && (odd == 0 || median(values) <= 1.1);
                               }
                               std::printf("\n");
                             }
                           return kept ? 0 : 1;
                         },
                         {.pin = true});
}
