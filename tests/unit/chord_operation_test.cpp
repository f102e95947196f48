// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// That what goes by chords is complete and has the ring's bits: tests/static/chord_operation.cpp. Here, among threads.
#include "ringlet/chord_operation.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../fabric/fake_provider.hpp"
#include "../fabric/over.hpp"
#include "../ranks.hpp"
#include "ringlet/all_gather.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/broadcast.hpp"
#include "ringlet/point_to_point.hpp"
#include "ringlet/reduce.hpp"
#include "ringlet/reduce_scatter.hpp"

using namespace tests;

static_assert(ringlet::chorded<ringlet::fabric>);

namespace {

using plain = over_fake<"plain">;

// How many messages of collectives f makes this rank send.
template <class Comm, class F>
std::uint64_t messages(Comm& comm, F&& f) {
  auto const before = comm.counters().messages;
  f();
  return comm.counters().messages - before;
}
ringlet::connect_options<ringlet::fabric> by_chords(std::size_t bytes) {
  ringlet::connect_options<ringlet::fabric> options;
  options.transport.chord_bytes = bytes;
  options.timeout = 5s;
  return options;
}
float sample(int rank, std::size_t i) { return 1.0F / static_cast<float>(3 * rank + 7 * static_cast<int>(i) + 1); }

// Each rank runs f(comm, rank) until an error ends it, and the errors' words are gathered: a set, for all ranks get the
// same ones. f may end without one: then the rank goes on to barriers.
template <class F>
std::set<std::string> mismatches(int n, F f) {
  std::mutex alone;
  std::set<std::string> all;
  int failed = 0;
  CHECK(on<plain>(
            n,
            [&](auto& comm) {
              auto const e = error_of([&] {
                f(comm, comm.rank());
                for (;;) ringlet::barrier(comm);
              });
              std::lock_guard const lock(alone);
              failed += e->why() == errc::mismatch;
              all.insert(e->words());
            },
            by_chords(4096)) == 0);
  CHECK(failed == n);
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE("log2(n) messages a rank, for any n, and the bits that a ring gives", Ranks, plain,
                   over_fake<"everything">, over_fake<"all_but_writes">) {
  for (int n = 2; n <= 9; ++n) {
    std::vector<std::vector<float>> results[2];
    for (auto& r : results) r.resize(static_cast<std::size_t>(n));
    for (bool chords : {false, true})
      CHECK(on<Ranks>(
                n,
                [&](auto& comm) {
                  int const rank = comm.rank();
                  expect(comm.transport().chords() ==
                             (chords ? static_cast<int>(std::bit_width(static_cast<unsigned>(n - 1))) : 0),
                         "chords: " + std::to_string(comm.transport().chords()));
                  auto const once = static_cast<std::uint64_t>(comm.transport().chords());
                  std::vector<float> own(37), sums(37), part(comm.chunks(37).length(static_cast<std::size_t>(rank))),
                      gathered(37);
                  for (std::size_t i = 0; i < own.size(); ++i) own[i] = sample(rank, i);
                  auto& result = results[chords][static_cast<std::size_t>(rank)];
                  for (int times = 0; times < 5; ++times) {  // more than slots
                    auto const sent = messages(comm, [&] { ringlet::all_reduce(comm, own, sums); });
                    expect(chords ? sent == once : sent >= 2 * static_cast<std::uint64_t>(n - 1), "all_reduce");
                    expect(sent == messages(comm, [&] { ringlet::reduce_scatter(comm, own, part); }) * (chords ? 1 : 2),
                           "reduce_scatter");
                    expect(
                        sent == messages(comm, [&] { ringlet::all_gather(comm, part, gathered); }) * (chords ? 1 : 2),
                        "all_gather");
                    expect(gathered == sums, "the parts are those of the whole");
                    expect(sent == messages(comm, [&] { ringlet::barrier(comm); }), "barrier");
                    result.insert(result.end(), sums.begin(), sums.end());
                    ringlet::all_reduce(comm, own, ringlet::average{});
                    result.insert(result.end(), own.begin(), own.end());
                  }
                },
                by_chords(chords ? 4096 : 0)) == 0);
    for (auto const& way : results)
      for (auto const& its : way) CHECK(its == results[0][0]);
  }
}

TEST_CASE("up to the size in the settings, which is the same on all ranks") {
  CHECK(on<plain>(
            5,
            [](auto& comm) {
              std::vector<char> fits(100), too_long(101);
              expect(messages(comm, [&] { ringlet::all_reduce(comm, fits); }) == 3, "100 bytes");
              expect(messages(comm, [&] { ringlet::all_reduce(comm, too_long); }) == 8, "101 bytes");
              expect(messages(comm, [&] { ringlet::broadcast(comm, fits, 0); }) != 3, "what has a root");
              std::vector<float> x(25);  // as long, but each rank must lift its own
              expect(
                  messages(comm, [&] { ringlet::all_reduce(comm, x, ringlet::scaled_sum{comm.rank() + 1.0F}); }) == 8,
                  "scaled_sum");
            },
            by_chords(100)) == 0);
  // No message is larger than a slot.
  auto small = by_chords(4096);
  small.transport.slot_bytes = 128;
  CHECK(on<plain>(
            5, [](auto& comm) { expect(comm.transport().chord_bytes() == 64, "twice that in a slot"); }, small) == 0);
  CHECK(launch(2,
               [](self who) {
                 auto const options = options_of<plain>(by_chords(who.rank == 0 ? 100 : 104));
                 expect(error_of([&] { ringlet::connect<ringlet::fabric>(who, options); }), errc::mismatch,
                        "chord_bytes=104");
               },
               {.as = ranks_as::threads}) == 0);
}

TEST_CASE("a provider without tagged messages has no chords, and all goes round the ring") {
  CHECK(on<over_fake<"untagged">>(3, [](auto& comm) {
          std::vector<int> x(3, comm.rank());
          expect(messages(comm, [&] { ringlet::all_reduce(comm, x); }) == 4, "2(n-1)");
          expect(x == std::vector<int>(3, 3), "the sum");
        }) == 0);
}

TEST_CASE("nobody leaves a barrier before all have come") {
  for (int n : {2, 3, 6}) {
    std::atomic<int> come = 0;
    CHECK(on<over_fake<"storms">>(n, [&](auto& comm) {
            for (int round = 1; round <= 20; ++round) {
              if ((round + comm.rank()) % n == 0) std::this_thread::sleep_for(1ms);
              ++come;
              ringlet::barrier(comm);
              expect(come >= round * n, "too soon");
            }
          }) == 0);
  }
}

TEST_CASE("operations overlap with each other and with messages, and keep their order") {
  CHECK(on<over_fake<"all_but_writes">>(
            4,
            [](auto& comm) {
              std::vector<int> small(2, 1), large(100'000, 2), more(3, 3), to(5, comm.rank()), from(5);
              int const next = (comm.rank() + 1) % 4, prev = (comm.rank() + 3) % 4;
              auto sent = ringlet::async_send(comm, to, next);
              auto a = ringlet::async_all_reduce(comm, small);
              auto b = ringlet::async_all_reduce(comm, large);
              auto c = ringlet::async_all_reduce(comm, more);
              auto got = ringlet::async_recv(comm, from, prev);
              c.wait(), b.wait(), a.wait(), got.wait(), sent.wait();
              expect(small == std::vector<int>(2, 4) && more == std::vector<int>(3, 12), "the small ones");
              expect(large == std::vector<int>(large.size(), 8), "the large one");
              expect(from == std::vector<int>(5, prev), "the message");
            },
            by_chords(4096)) == 0);
}

TEST_CASE("who is through may leave, and the others still get all") {
  for (int n : {2, 5})
    CHECK(on<over_fake<"reordered">>(
              n,
              [](auto& comm) {
                std::vector<int> x(2, 1);
                auto last = ringlet::async_all_reduce(comm, x);
                for (int i = 0; comm.rank() != 0 && i < 20; ++i) last.poll(), std::this_thread::sleep_for(1ms);
                last.wait();
                expect(x == std::vector<int>(2, comm.size()), "the sum");
              },
              by_chords(4096)) == 0);
}

TEST_CASE("ranks that call different things get an error that names both, whatever way each call goes") {
  auto const all_have = [](std::set<std::string> const& words, char const* one, char const* other) {
    for (auto const& w : words) CHECK_MESSAGE((contains(w, one) && contains(w, other)), w);
  };
  // Who only sends may be through before anybody has noticed; then it is its next call that does not fit.
  auto const all_have_or = [](std::set<std::string> const& words, char const* one, char const* other) {
    for (auto const& w : words)
      CHECK_MESSAGE((contains(w, one) && (contains(w, other) || contains(w, "barrier (call 2)"))), w);
  };
  for (int n : {2, 3, 5})
    for (int odd = 0; odd<n; odd += n - 2> 0 ? n - 2 : 1) {
      CAPTURE(n);
      CAPTURE(odd);
      auto const when = [n, odd](auto others, auto its) {
        return mismatches(n, [=](auto& comm, int rank) { rank == odd ? its(comm) : others(comm); });
      };
      auto const reduces = [](std::size_t count) {
        return [count](auto& comm) {
          std::vector<float> x(count);
          ringlet::all_reduce(comm, x);
        };
      };
      all_have(when(reduces(4), reduces(5)), "all_reduce of 4 float32", "all_reduce of 5 float32");
      all_have(when(reduces(4), [](auto& comm) { ringlet::barrier(comm); }), "all_reduce of 4 float32", "barrier");
      all_have(when(reduces(4),
                    [](auto& comm) {
                      std::vector<int> x(4);
                      ringlet::all_reduce(comm, x);
                    }),
               "4 float32", "4 int32");
      all_have(when(reduces(4),
                    [](auto& comm) {
                      std::vector<float> x(4);
                      ringlet::all_reduce(comm, x, ringlet::maximum{});
                    }),
               "sum", "maximum");
      // By chords and round the ring.
      all_have(when(reduces(4), reduces(100'000)), "of 4 float32", "of 100000 float32");
      all_have(when(reduces(100'000), reduces(4)), "of 4 float32", "of 100000 float32");
      for (int root = 0; root < n; ++root) {
        auto const casts = [root](auto& comm) {
          std::vector<float> x(4);
          ringlet::broadcast(comm, x, root);
        };
        auto const gives = [root](auto& comm) {
          std::vector<float> x(4);
          ringlet::reduce(comm, x, root);
        };
        all_have_or(when(reduces(4), casts), "all_reduce of 4", "broadcast of 4");
        all_have_or(when(casts, reduces(4)), "all_reduce of 4", "broadcast of 4");
        all_have_or(when(reduces(4), gives), "all_reduce of 4", "reduce of 4");
        all_have_or(when(gives, reduces(4)), "all_reduce of 4", "reduce of 4");
      }
    }
}

TEST_CASE("who only sends, round the ring, is named by the next rank") {
  std::atomic<bool> noticed = false;
  CHECK(on<plain>(
            3,
            [&](auto& comm) {
              std::vector<float> x(4);
              if (comm.rank() == 0) return void(error_of([&] { ringlet::broadcast(comm, x, 0); }));
              while (comm.rank() == 2 && !noticed) std::this_thread::sleep_for(1ms);  // rank 0 hears nothing from it
              auto const e = error_of([&] { ringlet::all_reduce(comm, x); });
              noticed = true;
              expect(e, errc::mismatch, "rank 0 called broadcast of 4 float32, from rank 0 (call 1)");
            },
            by_chords(4096)) == 0);
}

TEST_CASE("a rank that does not come lets the others wait until their deadline, and no longer") {
  auto options = by_chords(4096);
  options.timeout = 200ms;
  std::atomic<int> ended = 0;
  CHECK(on<plain>(
            3,
            [&](auto& comm) {
              std::vector<int> x(1);
              auto const begin = std::chrono::steady_clock::now();
              if (comm.rank() != 1)
                expect(error_of([&] { ringlet::all_reduce(comm, x); }), errc::timed_out, "waited 200 ms in call 1");
              expect(std::chrono::steady_clock::now() - begin < 10s, "in time");
              for (++ended; ended < 3;) std::this_thread::sleep_for(1ms);
            },
            options) == 0);
}
