// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One link of shared_memory between two pinned processes: ping-pong and stream over its slots, and the two numbers of
// Hockney's model ("The communication challenge for MPP", 1994) that fit best, time = alpha + bytes / beta. Both
// ends copy: the sender into the slot, the receiver out of it. Medians.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <span>
#include <vector>

#include "ringlet/all_reduce.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/bootstrap/launch.hpp"
#include "ringlet/transport/shared_memory.hpp"
#include "timing.hpp"

namespace {

using ringlet::shared_memory;

struct sample {
  double bytes, seconds;
};
struct model {
  double alpha, beta;  ///< seconds, bytes a second
  double residual;     ///< root of the mean squared relative error
};

// Least squares of relative errors: absolute ones would see the largest sizes only.
model fit(std::vector<sample> const& samples) {
  double ww = 0, wx = 0, xx = 0, wy = 0, xy = 0;
  for (auto [x, y] : samples) {
    double const w = 1 / (y * y);
    ww += w, wx += w * x, xx += w * x * x, wy += w * y, xy += w * x * y;
  }
  double const slope = (ww * xy - wx * wy) / (ww * xx - wx * wx), alpha = (wy - slope * wx) / ww;
  double squares = 0;
  for (auto [x, y] : samples) squares += std::pow((alpha + slope * x) / y - 1, 2);
  return {alpha, 1 / slope, std::sqrt(squares / static_cast<double>(samples.size()))};
}

class end {
 public:
  end(shared_memory& x, std::size_t most)
      : link_(x.lane(0)), slot_bytes_(x.slot_bytes()), memory_(most, std::byte{1}) {}

  void send(std::size_t bytes) {
    each_slice(bytes, [&](std::size_t at, ringlet::placement where) {
      auto const to = until([&] { return link_.next().try_acquire<std::byte>(where); });
      std::memcpy(to.data, memory_.data() + at, where.count);
      link_.next().commit();
    });
  }
  void receive(std::size_t bytes) {
    each_slice(bytes, [&](std::size_t at, ringlet::placement where) {
      auto const from = until([&] { return link_.prev().try_peek<std::byte>(where); });
      std::memcpy(memory_.data() + at, from.data, where.count);
      link_.prev().release();
    });
  }

 private:
  template <class F>
  void each_slice(std::size_t bytes, F&& f) {
    for (std::size_t at = 0; at < bytes; at += slot_bytes_)
      f(at, ringlet::placement{0, std::min(slot_bytes_, bytes - at), false});
  }
  template <class Try>
  ringlet::slice<std::byte> until(Try&& once) {
    for (;;) {
      if (auto const got = once()) return got;
      if (link_.broken()) throw ringlet::error(ringlet::errc::aborted, "the other end of the link is gone");
    }
  }

  shared_memory::link& link_;
  std::size_t slot_bytes_;
  std::vector<std::byte> memory_;
};

void measure(ringlet::communicator<shared_memory>& comm, flags& f, int repetitions, std::size_t most) {
  int const rank = comm.rank();
  end mine(comm.transport(), most);
  auto const repeat = [&](auto&& take) {
    std::vector<double> times;
    for (int i = 0; i < repetitions; ++i) {
      ringlet::barrier(comm);
      times.push_back(take());
    }
    return median(times);
  };
  auto const calls = [](std::size_t bytes) {
    return static_cast<int>(std::clamp<std::size_t>((std::size_t{1} << 22) / bytes, 8, 2000));
  };

  if (rank == 1) std::printf("#   size (B)   ping-pong (us)   GB/s   stream (us)   GB/s\n");
  std::vector<sample> samples;
  for (std::size_t bytes = 8; bytes <= most; bytes *= 2) {
    int const n = calls(bytes);
    double const half = repeat([&] {
      double const both = seconds_of(n, [&] {
        if (rank == 0) mine.send(bytes);
        mine.receive(bytes);
        if (rank == 1) mine.send(bytes);
      });
      return both / 2;
    });
    // Rank 1 receives; it is the one that prints, since a stream takes as long as its receiver does.
    double const stream =
        repeat([&] { return seconds_of(n, [&] { rank == 0 ? mine.send(bytes) : mine.receive(bytes); }); });
    samples.push_back({static_cast<double>(bytes), half});
    double const gigabytes = static_cast<double>(bytes) / 1e9;
    if (rank == 1)
      std::printf("%12zu   %14.3f  %5.2f   %11.3f  %5.2f\n", bytes, half * 1e6, gigabytes / half, stream * 1e6,
                  gigabytes / stream);
    std::fflush(stdout);
  }
  model const m = fit(samples);
  double const trip = repeat([&] { return f.round_trip(rank, 2000); });
  std::vector<float> two(2, 1);
  double const small = repeat([&] { return seconds_of(2000, [&] { ringlet::all_reduce(comm, two); }); });
  if (rank == 1)
    std::printf(
        "# alpha %.3f us, beta %.2f GB/s, residual %.0f %%\n"
        "# round trip of a bare flag %.3f us; all_reduce of 8 B %.3f us: %.2f of it\n",
        m.alpha * 1e6, m.beta / 1e9, m.residual * 100, trip * 1e6, small * 1e6, small / trip);
}

}  // namespace

int main(int argc, char** argv) {
  int repetitions = 15;
  std::size_t most = std::size_t{4} << 20;
  CLI::App app("Times one link of shared_memory between two pinned processes and fits alpha and beta.", "link");
  app.add_option("-n,--repetitions", repetitions, "Medians of so many")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("-e,--maxbytes", most, "Largest size")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(16, 1 << 30))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  shared_with_children<flags> f;
  auto const rank = [&](auto who) {
    auto comm = ringlet::connect<shared_memory>(who);
    measure(comm, *f, repetitions, most);
  };
  return ringlet::launch(2, rank, {.pin = true});
}
