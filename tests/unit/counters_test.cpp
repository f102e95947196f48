// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/counters.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "../over_both.hpp"
#include "ringlet/all_gather.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/broadcast.hpp"
#include "ringlet/point_to_point.hpp"
#include "ringlet/reduce.hpp"
#include "ringlet/reduce_scatter.hpp"

using namespace tests;
using ringlet::shared_memory;

namespace {

constexpr std::size_t n = 4, count = n * 30'000, bytes = count * sizeof(float);

// What f moves through a communicator.
template <class Comm, class F>
ringlet::counters of(Comm& comm, F&& f) {
  auto const before = comm.counters();
  f();
  auto after = comm.counters();
  after.messages -= before.messages, after.sent -= before.sent, after.received -= before.received;
  after.copied -= before.copied, after.waited -= before.waited;
  return after;
}
void expect_bytes(ringlet::counters const& c, std::size_t sent, std::size_t received, std::size_t copied,
                  std::string const& what) {
  expect(c.sent == sent, what + ": sent " + std::to_string(c.sent) + ", expected " + std::to_string(sent));
  expect(c.received == received, what + ": received " + std::to_string(c.received));
  expect(c.copied == copied, what + ": copied " + std::to_string(c.copied) + ", expected " + std::to_string(copied));
}

}  // namespace

TEST_CASE("an all-reduce costs each rank 2(n-1)/n of the buffer, its halves (n-1)/n, whatever the way") {
  enum way { direct, staged, ring };
  for (way how : {direct, staged, ring}) {
    auto options = how == ring ? with_slots<shared_memory>(4, 4096) : ringlet::connect_options<shared_memory>{};
    CHECK(on<processes<shared_memory>>(
              n,
              [how](auto& comm) {
                auto const own = comm.template allocate<float>(count);
                std::vector<float> ordinary(count), part(count / n);
                std::span<float> const buffer = how == direct ? std::span(own.data(), count) : std::span(ordinary);
                std::size_t const halves = bytes / n * (n - 1), all = 2 * halves;
                auto const reduced = of(comm, [&] { ringlet::all_reduce(comm, buffer); });
                expect_bytes(reduced, all, all, how == direct ? 0 : how == staged ? bytes : all, "all_reduce");
                auto const scattered = of(comm, [&] { ringlet::reduce_scatter(comm, buffer); });
                expect_bytes(scattered, halves, halves, how == direct ? 0 : halves, "reduce_scatter");
                auto const gathered = of(comm, [&] { ringlet::all_gather(comm, buffer); });
                expect_bytes(gathered, halves, halves,
                             how == direct   ? 0
                             : how == staged ? bytes / n
                                             : halves,
                             "all_gather");
                // A board at the start; then one at the end, one a round of 64 KiB rows, or slices of 4096 bytes.
                std::size_t const rounds = (bytes / n + 65'535) / 65'536,
                                  slices = 2 * (n - 1) * ((bytes / n + 4095) / 4096);
                expect(reduced.messages == 1 + (how == direct ? 1 : how == staged ? rounds : slices), "messages");
              },
              options) == 0);
  }
}

OVER_BOTH("in one shot everyone reads everything") {
  CHECK(on<Ranks>(3, [](auto& comm) {
          std::vector<float> x(6);
          auto const c = of(comm, [&] { ringlet::all_reduce(comm, x); });
          expect_bytes(c, 2 * 24, 2 * 24, 24, "all_reduce");
          expect(c.messages == 1, "one board");
        }) == 0);
}

TEST_CASE("where memory is out of reach all read everything, and meet twice if it is so of some ranks only") {
  for (bool allocated : {false, true})
    CHECK(on<processes<shared_memory>>(3, [allocated](auto& comm) {
            auto const memory = comm.template allocate<float>(1000);
            std::vector<float> ordinary(1000);
            std::span<float> const x = allocated && comm.rank() == 0 ? std::span(memory) : std::span(ordinary);
            auto const c = of(comm, [&] { ringlet::all_reduce(comm, x); });
            expect_bytes(c, 2 * 4000, 2 * 4000, 4000, "all_reduce");
            expect(c.messages == (allocated ? 2 : 1), "boards shown");
          }) == 0);
}

TEST_CASE("what travels as another type is counted as that") {
  CHECK(on<processes<shared_memory>>(
            2,
            [](auto& comm) {
              std::vector<float> x(30'000);
              auto const as = ringlet::travel_as<ringlet::bfloat16>(ringlet::sum{});
              auto const c = of(comm, [&] { ringlet::all_reduce(comm, x, as); });
              expect_bytes(c, 60'000, 60'000, 60'000, "all_reduce");
            },
            with_slots<shared_memory>(4, 4096)) == 0);
}

OVER_BOTH("what one rank has sent, another has received: the sums over all ranks agree") {
  CHECK(on<Ranks>(3, [](auto& comm) {
          std::vector<float> x(10'001), part(comm.chunks(10'001).length(static_cast<std::size_t>(comm.rank())));
          auto const memory = comm.template allocate<float>(10'001);
          auto const c = of(comm, [&] {
            for (std::span<float> buffer :
                 {std::span(x), std::span(memory.data(), memory.size()), std::span(x).first(7)}) {
              ringlet::all_reduce(comm, buffer);
              ringlet::reduce_scatter(comm, buffer);
              ringlet::all_gather(comm, buffer);
              for (int root : {0, 2}) ringlet::broadcast(comm, buffer, root), ringlet::reduce(comm, buffer, root);
              if (comm.rank() == 0) ringlet::send(comm, buffer, 2);
              if (comm.rank() == 2) ringlet::recv(comm, buffer, 0);
            }
          });
          std::vector<std::uint64_t> sums{c.sent, c.received};
          ringlet::all_reduce(comm, sums);
          expect(sums[0] == sums[1], std::to_string(sums[0]) + " bytes sent, " + std::to_string(sums[1]) + " received");
        }) == 0);
}

OVER_BOTH("a broadcast or a reduce in a pipeline, and what goes directly") {
  CHECK(on<Ranks>(4, [](auto& comm) {
          std::vector<float> x(count);
          bool const root = comm.rank() == 1, threads = Ranks::as == ranks_as::threads;
          auto const cast = of(comm, [&] { ringlet::broadcast(comm, x, 1); });
          auto const reduced = of(comm, [&] { ringlet::reduce(comm, x, 1); });
          if (threads) {
            expect_bytes(cast, root ? 3 * bytes : 0, root ? 0 : bytes, 0, "broadcast");
            expect_bytes(reduced, root ? bytes / 4 * 3 : bytes, root ? bytes / 4 * 6 : bytes / 4 * 3, 0, "reduce");
          } else {  // from 1 over 2 and 3 to 0, and from 2 over 3 and 0 to 1
            std::size_t const passes_on = comm.rank() == 0 ? 0 : bytes, adds_to = root ? 0 : bytes;
            expect_bytes(cast, passes_on, root ? 0 : bytes, passes_on, "broadcast");
            expect_bytes(reduced, adds_to, comm.rank() == 2 ? 0 : bytes, adds_to, "reduce");
          }
        }) == 0);
}

OVER_BOTH("the collector's one connection carries 2(n-1) buffers") {
  CHECK(on<Ranks>(4, [](auto& comm) {
          std::vector<float> x(1'000), its(1'000);
          auto const c = of(comm, [&] {
            if (comm.rank() != 0) ringlet::send(comm, x, 0), ringlet::recv(comm, x, 0);
            for (int other = 1; comm.rank() == 0 && other < 4; ++other) ringlet::recv(comm, its, other);
            for (int other = 1; comm.rank() == 0 && other < 4; ++other) ringlet::send(comm, x, other);
          });
          expect(c.sent + c.received == (comm.rank() == 0 ? 2 * 3 : 2) * 4'000,
                 "bytes at rank " + std::to_string(comm.rank()));
        }) == 0);
}

OVER_BOTH("who waits for a rank that sleeps has waited") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          ringlet::barrier(comm);
          auto const c = of(comm, [&] {
            if (comm.rank() == 0) std::this_thread::sleep_for(50ms);
            ringlet::barrier(comm);
          });
          expect(comm.rank() == 0 || (c.waited > 25ms && c.waited < 10s), "the time");
        }) == 0);
}
