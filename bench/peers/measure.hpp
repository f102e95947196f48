// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../timing.hpp"

// The one loop that times every library. For each, a small program implements `library` and is called as
//
//     PROGRAM VARIANT RANKS COLLECTIVE BLOCKS BYTES...
//
// where BYTES is the size of the whole buffer. Rank 0 prints the library's version and then a line for each size, both
// as JSON. Exit status 1: wrong elements; 2: a failure.

namespace peers {

enum class collective { all_reduce, reduce_scatter, all_gather };

/// The command line.
struct task {
  std::string variant;
  int ranks;
  collective what;
  int blocks;
  std::vector<std::size_t> sizes;
};

/// What a library is to the loop: sums of floats, out of place, called by all ranks. Counts are elements; of
/// reduce_scatter and all_gather they are those of one rank's share.
class library {
 public:
  library(std::string its_version, int its_rank, int its_size)
      : version(std::move(its_version)), rank(its_rank), size(its_size) {}
  library(library const&) = delete;
  virtual ~library() = default;

  std::string const version;  ///< as the library says it
  int const rank, size;

  virtual void all_reduce(float const* in, float* out, std::size_t count) = 0;
  virtual void reduce_scatter(float const*, float*, std::size_t) { throw std::logic_error("no reduce_scatter here"); }
  virtual void all_gather(float const*, float*, std::size_t) { throw std::logic_error("no all_gather here"); }
  /// The largest value that any rank gives. No rank has it before all have called.
  virtual double largest(double mine) = 0;
  /// A buffer for `in` or `out`, as long as the library lives.
  virtual float* memory(std::size_t count) { return kept_.emplace_back(count).data(); }

 private:
  std::vector<std::vector<float>> kept_;
};

/// Binds the calling thread: rank r to the r-th processor that it may use, counted from the first again where ranks
/// outnumber processors. Threads that a library has made by then stay free.
inline void pin(int rank) {
  cpu_set_t allowed, one;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int skip = rank % CPU_COUNT(&allowed), cpu = 0;
  while (!CPU_ISSET(cpu, &allowed) || skip-- > 0) ++cpu;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

/// What a rank gives for an element of the whole buffer: an integer below 128, so that sums are exact in any order.
inline float value(int rank, std::size_t index) {
  return static_cast<float>((index + static_cast<std::size_t>(rank) * 1000) * 0x9e3779b97f4a7c15 >> 57);
}

/// Times what the task asks for and checks every element, before the timing and after it. A block is as many calls as
/// take 20 ms, one after the other without a barrier, begun together; its time is a call's mean on the slowest rank.
/// The result is the median over blocks, a first one apart. (nccl-tests takes one block.) A library that is so slow
/// that a size would take more than 3 s gets fewer blocks.
/// @return the exit status
inline int measure(library& l, task const& t) {
  constexpr double block_seconds = 0.02, size_seconds = 3;
  bool const scatters = t.what == collective::reduce_scatter, gathers = t.what == collective::all_gather;
  auto const ranks = static_cast<std::size_t>(l.size), rank = static_cast<std::size_t>(l.rank);
  if (l.size != t.ranks) throw std::runtime_error("the launcher made a world of " + std::to_string(l.size));
  if (rank == 0) std::printf("{\"version\": \"%s\"}\n", l.version.c_str());
  std::size_t const room = *std::max_element(t.sizes.begin(), t.sizes.end()) / sizeof(float) + ranks;
  float* const in = l.memory(room);
  float* const out = l.memory(room);

  bool all_right = true;
  for (std::size_t const bytes : t.sizes) {
    std::size_t const whole = bytes / sizeof(float);
    std::size_t const count = scatters || gathers ? (whole + ranks - 1) / ranks : whole, mine = rank * count;
    std::size_t const in_size = scatters ? count * ranks : count, out_size = gathers ? count * ranks : count;
    auto const once = [&] {
      scatters  ? l.reduce_scatter(in, out, count)
      : gathers ? l.all_gather(in, out, count)
                : l.all_reduce(in, out, count);
    };
    auto const expected = [&](std::size_t i) {
      if (gathers) return value(static_cast<int>(i / count), i);
      float sum = 0;
      for (int r = 0; r < l.size; ++r) sum += value(r, (scatters ? mine : 0) + i);
      return sum;
    };
    auto const wrong = [&] {
      std::fill_n(out, out_size, -1.0F);
      l.largest(0);
      once();
      l.largest(0);
      double n = 0;
      for (std::size_t i = 0; i < out_size; ++i) n += out[i] != expected(i);
      all_right = all_right && n == 0;  // whatever `largest` makes of it
      return l.largest(n);
    };

    for (std::size_t i = 0; i < in_size; ++i) in[i] = value(l.rank, (gathers ? mine : 0) + i);
    double wrongs = wrong();
    double const guess = l.largest(seconds_of(2, once));
    int const calls = static_cast<int>(std::clamp(block_seconds / guess, 1.0, 1e5));
    int const blocks = static_cast<int>(std::clamp(size_seconds / guess, 1.0, static_cast<double>(t.blocks)));
    std::vector<double> times;
    for (int block = -1; block < blocks; ++block) {
      l.largest(0);
      double const seconds = l.largest(seconds_of(calls, once));
      if (block >= 0) times.push_back(seconds);
    }
    wrongs += wrong();
    if (rank == 0) std::printf("{\"bytes\": %zu, \"us\": %.4f, \"wrong\": %.0f}\n", bytes, median(times) * 1e6, wrongs);
    std::fflush(stdout);
  }
  return all_right ? 0 : 1;
}

/// What `main` does: `f` gets the task and returns the exit status.
template <class F>
int run(int argc, char** argv, F&& f) try {
  if (argc < 6) throw std::invalid_argument("VARIANT RANKS COLLECTIVE BLOCKS BYTES... are needed");
  std::string const what = argv[3];
  task t{argv[1], std::atoi(argv[2]), collective::all_reduce, std::atoi(argv[4]), {}};
  if (what == "reduce_scatter") t.what = collective::reduce_scatter;
  if (what == "all_gather") t.what = collective::all_gather;
  for (int i = 5; i < argc; ++i) t.sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  return f(t);
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 2;
}

}  // namespace peers
