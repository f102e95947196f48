// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What README.md promises of shared_memory, measured: medians of several rounds, in each of which everything is
// measured once, so that a busy moment of the machine does not fall on one figure alone. Processes are pinned.

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "ringlet/all_reduce.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/bootstrap/launch.hpp"
#include "ringlet/transport/shared_memory.hpp"
#include "timing.hpp"

namespace {

using ringlet::shared_memory;
constexpr std::size_t large = (std::size_t{32} << 20) / sizeof(float), medium = (std::size_t{1} << 20) / sizeof(float);

// What two ranks, and then eight, measure in one round, in seconds.
struct times {
  double round_trip, small, add, ordinary, allocated, two_ranks, eight_ranks;
};
struct shared_state {
  flags f;
  times t;
};

// Local work that moves as many bytes as a rank of an all_reduce: reads two streams, writes one. A loop of fixed length
// over memory that does not alias, which every compiler turns into vector code.
void add(float* __restrict c, float const* __restrict a, float const* __restrict b, std::size_t n) {
  constexpr std::size_t block = 1024;
  for (; n >= block; n -= block, a += block, b += block, c += block)
    for (std::size_t i = 0; i < block; ++i) c[i] = a[i] + b[i];
}
static_assert(large % 1024 == 0);

// Mean seconds of `n` calls, all ranks beginning together.
template <class F>
double together(ringlet::communicator<shared_memory>& comm, int n, F&& f) {
  f();
  ringlet::barrier(comm);
  return seconds_of(n, f);
}

double at_one_mebibyte(ringlet::communicator<shared_memory>& comm) {
  std::vector<float> in(medium, 1), out(medium);
  return together(comm, 50, [&] { ringlet::all_reduce(comm, in, out); });
}

void two_ranks(ringlet::communicator<shared_memory>& comm, shared_state& s) {
  times t{};
  std::vector<float> two(2, 1);
  ringlet::barrier(comm);
  t.round_trip = s.f.round_trip(comm.rank(), 5000);
  t.small = together(comm, 5000, [&] { ringlet::all_reduce(comm, two); });
  {
    std::vector<float> a(large, 1), b(large, 2), c(large);
    t.add = together(comm, 5, [&] { add(c.data(), a.data(), b.data(), large); });
    if (c[0] != 3 || c[large - 1] != 3) throw std::logic_error("the local add is wrong");
    t.ordinary = together(comm, 5, [&] { ringlet::all_reduce(comm, a, c); });
  }
  {
    auto const in = comm.allocate<float>(large), out = comm.allocate<float>(large);
    t.allocated = together(comm, 5, [&] { ringlet::all_reduce(comm, in, out); });
  }
  t.two_ranks = at_one_mebibyte(comm);
  if (comm.rank() == 0) s.t = t;
}

struct figure {
  char const* name;
  bool at_most;  ///< or at least
  double promised, measured;
  std::string parts;

  bool kept() const { return at_most ? measured <= promised : measured >= promised; }
};

std::string text(char const* format, double a, double b) {
  char words[80];
  std::snprintf(words, sizeof words, format, a, b);
  return words;
}

std::vector<figure> figures(std::vector<times> const& rounds) {
  auto const middle = [&](double times::*of) {
    std::vector<double> values;
    for (times const& t : rounds) values.push_back(t.*of);
    return median(values);
  };
  auto const ratio = [&](double times::*a, double times::*b) {  // of one round's times
    std::vector<double> values;
    for (times const& t : rounds) values.push_back(t.*a / t.*b);
    return median(values);
  };
  auto const rate = [&](double times::*of) { return large * sizeof(float) / 1e9 / middle(of); };
  return {
      {"all_reduce of 8 B / round trip of a bare flag", true, 1.1, ratio(&times::small, &times::round_trip),
       text("%.3f us / %.3f us", middle(&times::small) * 1e6, middle(&times::round_trip) * 1e6)},
      {"all_reduce of 32 MiB, busbw / local add", false, 1.3, ratio(&times::add, &times::ordinary),
       text("%.2f GB/s / %.2f GB/s", rate(&times::ordinary), rate(&times::add))},
      {"the same, allocated / ordinary memory", false, 1.2, ratio(&times::ordinary, &times::allocated),
       text("%.2f GB/s / %.2f GB/s", rate(&times::allocated), rate(&times::ordinary))},
      {"all_reduce of 1 MiB, time of 8 ranks / 2 ranks", true, 6, ratio(&times::eight_ranks, &times::two_ranks),
       text("%.0f us / %.0f us", middle(&times::eight_ranks) * 1e6, middle(&times::two_ranks) * 1e6)},
  };
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 9;
  std::string json;
  CLI::App app("Measures what README.md promises of shared_memory. Exit status: 1 when a promise is not kept.",
               "figures");
  app.add_option("-n,--rounds", rounds, "Medians of so many")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--json", json, "File for the results as JSON");
  CLI11_PARSE(app, argc, argv);

  shared_with_children<shared_state> s;
  std::vector<times> all;
  for (int round = 0; round < rounds; ++round) {
    auto const two = [&](auto who) {
      auto comm = ringlet::connect<shared_memory>(who);
      two_ranks(comm, *s);
    };
    auto const eight = [&](auto who) {
      auto comm = ringlet::connect<shared_memory>(who);
      double const seconds = at_one_mebibyte(comm);
      if (comm.rank() == 0) s->t.eight_ranks = seconds;
    };
    if (ringlet::launch(2, two, {.pin = true}) != 0 || ringlet::launch(8, eight, {.pin = true}) != 0) return 1;
    all.push_back(s->t);
  }

  bool kept = true;
  auto results = nlohmann::ordered_json::array();
  std::printf("%-48s  %8s  %8s\n", "figure", "promised", "measured");
  for (figure const& f : figures(all)) {
    kept = kept && f.kept();
    std::printf("%-48s  %s %5.2f  %8.2f  %-4s (%s)\n", f.name, f.at_most ? "<=" : ">=", f.promised, f.measured,
                f.kept() ? "kept" : "MISSED", f.parts.c_str());
    results.push_back({{"figure", f.name},
                       {f.at_most ? "at_most" : "at_least", f.promised},
                       {"measured", f.measured},
                       {"of", f.parts},
                       {"kept", f.kept()}});
  }
  std::printf("medians of %d rounds, 2 pinned processes unless said otherwise\n", rounds);
  if (!json.empty()) {
    std::ofstream file(json);
    file << results.dump(2) << '\n';
    if (!file.flush()) {
      std::fprintf(stderr, "figures: cannot write %s\n", json.c_str());
      return 2;
    }
  }
  return kept ? 0 : 1;
}
