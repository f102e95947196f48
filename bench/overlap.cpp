// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How much of an exchange a backward pass hides. The pass is synthetic: layers, each of so much arithmetic, after which
// its gradient is written. Between processes of one machine an exchange is the processors' own work: what can be hidden
// is waiting for slower ranks, and with a processor to spare for a progress thread the rest, too. Medians of rounds,
// in each of which everything is measured once; a time is that of the slowest rank.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ringlet/all_reduce.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/bootstrap/launch.hpp"
#include "ringlet/bucketer.hpp"
#include "ringlet/progress_thread.hpp"
#include "ringlet/transport/shared_memory.hpp"
#include "timing.hpp"

namespace {

using ringlet::shared_memory;
using communicator = ringlet::communicator<shared_memory>;

struct settings {
  int ranks = 2, layers = 16, pieces = 8, rounds = 9;
  std::size_t kib = 1024;
  double microseconds = 500, skew = 0.5;
  ringlet::bucket_bytes buckets;
  bool pin = false;

  std::size_t elements() const { return kib * 1024 / sizeof(float); }
};

// Arithmetic that no compiler leaves out, on next to no memory.
float compute(long turns) {
  float x[16] = {1};
  for (long i = 0; i < turns; ++i) {
    for (float& e : x) e = e * 0.999F + 0.5F;
    asm volatile("" : : "r"(x) : "memory");
  }
  return x[0];
}
// How many turns a microsecond has: the most of a few tries, for other work can only slow one.
double turns_of_a_microsecond() {
  constexpr long turns = 200'000;
  double best = 0;
  for (int i = 0; i < 20; ++i) best = std::max(best, turns / 1e6 / seconds_of(1, [] { compute(turns); }));
  return best;
}

constexpr char const* ways[] = {
    "pass alone",          "exchange alone",  "pass, then exchange", "one message, polled",
    "one message, thread", "buckets, polled", "buckets, thread",
};
constexpr std::size_t measured = std::size(ways);

struct shared_state {
  double seconds[measured];
};

class rank_of_many {
 public:
  rank_of_many(communicator& comm, settings const& s, double turns)
      : comm_(comm),
        s_(s),
        turns_(turns * s.microseconds / s.pieces),
        message_(comm.allocate<float>(s.elements() * static_cast<std::size_t>(s.layers))),
        buckets_(comm, std::vector<std::size_t>(static_cast<std::size_t>(s.layers), s.elements()), {}, s.buckets),
        progress_(comm, buckets_) {}

  // One round of all ways, in their order.
  std::vector<double> round() {
    auto const nothing = [] {};
    auto const ready = [&](std::size_t layer) { buckets_.ready(layer); };
    auto const poll = [&] { buckets_.poll(); };
    std::vector<double> seconds;
    auto measure = [&](auto&& f) {
      ringlet::barrier(comm_);
      double slowest[] = {seconds_of(1, f)};
      ringlet::all_reduce(comm_, slowest, ringlet::maximum{});
      seconds.push_back(slowest[0]);
    };
    measure([&] { pass(nothing); });
    measure([&] { ringlet::all_reduce(comm_, message_); });
    measure([&] {
      pass(nothing);
      ringlet::all_reduce(comm_, message_);
    });
    measure([&] {
      auto exchange = ringlet::async_all_reduce(comm_, message_);
      pass([&] { exchange.poll(); });
      exchange.wait();
    });
    measure([&] {
      auto exchange = ringlet::async_all_reduce(comm_, message_);
      ringlet::progress_thread progress(comm_, exchange);
      progress.start();
      pass(nothing);
      progress.wait();
    });
    measure([&] {
      pass(poll, ready);
      buckets_.wait();
    });
    measure([&] {
      progress_.start();
      pass(nothing, ready);
      progress_.wait();
    });
    return seconds;
  }

 private:
  // Ranks need different time for a layer, and the same for all.
  template <class Between, class Ready>
  void pass(Between between, Ready ready) {
    for (std::size_t layer = 0; layer < buckets_.size(); ++layer) {
      bool const slow = (layer + static_cast<std::size_t>(comm_.rank())) % 2 == 0;
      auto const gradient = buckets_.gradient(layer);
      for (int piece = 0; piece < s_.pieces; ++piece) {
        compute(static_cast<long>(turns_ * (slow ? 1 + s_.skew : 1 - s_.skew)));
        between();
      }
      std::fill(gradient.begin(), gradient.end(), 1.0F);
      ready(layer);
    }
  }
  template <class Between>
  void pass(Between between) {
    pass(between, [](std::size_t) {});
  }

  communicator& comm_;
  settings const s_;
  double const turns_;  // of a piece
  ringlet::allocation<float, shared_memory> message_;
  ringlet::bucketer<float, shared_memory> buckets_;
  ringlet::progress_thread<shared_memory, ringlet::bucketer<float, shared_memory>> progress_;
};

}  // namespace

int main(int argc, char** argv) {
  settings s;
  std::string json;
  CLI::App app("Measures how much of an all-reduce a backward pass hides, between processes of this machine.",
               "overlap");
  app.add_option("--ranks", s.ranks, "Processes")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--layers", s.layers, "Layers of the pass")->check(CLI::Range(1, 10'000))->capture_default_str();
  app.add_option("--kib", s.kib, "KiB of gradient a layer")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  app.add_option("--us", s.microseconds, "Microseconds of arithmetic a layer")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--skew", s.skew, "Every other layer takes so much more, the others so much less; ranks take turns")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--pieces", s.pieces, "Polls a layer")->check(CLI::Range(1, 10'000))->capture_default_str();
  app.add_option("--first-bucket", s.buckets.first, "Bytes of the first bucket")->capture_default_str();
  app.add_option("--bucket", s.buckets.others, "Bytes of the other buckets")->capture_default_str();
  app.add_flag("--pin", s.pin, "Bind ranks to processors; their threads share them");
  app.add_option("-n,--rounds", s.rounds, "Medians of so many")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--json", json, "File for the results as JSON");
  CLI11_PARSE(app, argc, argv);

  double const turns = turns_of_a_microsecond();
  std::vector<std::vector<double>> seconds(measured);
  shared_with_children<shared_state> shared;
  int const failed = ringlet::launch(s.ranks,
                                     [&](auto who) {
                                       auto comm = ringlet::connect<shared_memory>(who);
                                       rank_of_many rank(comm, s, turns);
                                       rank.round();  // memory is there, caches are warm
                                       for (int i = 0; i < s.rounds; ++i) {
                                         auto const round = rank.round();
                                         for (std::size_t way = 0; way < measured; ++way)
                                           seconds[way].push_back(round[way]);
                                       }
                                       if (comm.rank() == 0)
                                         for (std::size_t way = 0; way < measured; ++way)
                                           shared->seconds[way] = median(seconds[way]);
                                     },
                                     {.pin = s.pin});
  if (failed != 0) return 1;

  double const pass = shared->seconds[0], exchange = shared->seconds[1];
  auto results = nlohmann::ordered_json::array();
  std::printf("%d ranks on %u processors; %d layers of %zu KiB and %g us, skew %g; medians of %d rounds\n", s.ranks,
              std::thread::hardware_concurrency(), s.layers, s.kib, s.microseconds, s.skew, s.rounds);
  std::printf("%-22s  %8s  %8s\n", "", "ms", "hidden");
  for (std::size_t way = 0; way < measured; ++way) {
    std::printf("%-22s  %8.3f", ways[way], shared->seconds[way] * 1e3);
    results.push_back({{"way", ways[way]}, {"seconds", shared->seconds[way]}});
    if (way > 1) {
      double const hidden = (pass + exchange - shared->seconds[way]) / exchange;
      std::printf("  %6.0f %%", hidden * 100);
      results.back()["hidden"] = hidden;
    }
    std::printf("\n");
  }
  if (!json.empty()) {
    std::ofstream file(json);
    file << results.dump(2) << '\n';
    if (!file.flush()) {
      std::fprintf(stderr, "overlap: cannot write %s\n", json.c_str());
      return 2;
    }
  }
  return 0;
}
