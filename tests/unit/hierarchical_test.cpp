// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/hierarchical.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "../../examples/07_own_transport.hpp"
#include "../ranks.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/element.hpp"
#include "ringlet/transport/in_process.hpp"
#include "ringlet/transport/shared_memory.hpp"

using namespace tests;

namespace {

// Which transports, and what ranks are.
template <class Inner, class Outer, ranks_as As>
struct over {
  using inner = Inner;
  using outer = Outer;
  static constexpr ranks_as as = As;
};
using of_threads = over<ringlet::in_process, sockets, ranks_as::threads>;
using of_processes = over<ringlet::shared_memory, sockets, ranks_as::processes>;
#define OVER_PAIRS(name) TEST_CASE_TEMPLATE(name, Pair, of_threads, of_processes)

struct shape {
  int hosts, places;
};
constexpr shape shapes[] = {{1, 1}, {1, 3}, {3, 1}, {2, 2}, {2, 3}, {4, 2}};

// Hosts as a test wants them: neighbouring ranks are on different ones.
auto in_turn(int hosts) {
  return [hosts](auto& m, ringlet::time_point) {
    std::vector<std::string> names;
    for (int r = 0; r < m.size(); ++r) names.push_back("host " + std::to_string(r % hosts));
    return names;
  };
}
auto by_name(std::vector<std::string> names) {
  return [names](auto&, ringlet::time_point) { return names; };
}

// Runs f on every rank of hosts that are made up. 0 when all were well.
template <class Pair, class F>
int on(shape s, F&& f, ringlet::connect_options<typename Pair::inner> const& inner = {}) {
  return launch(s.hosts * s.places,
                [&](self who) {
                  auto all = ringlet::connect_hierarchical<typename Pair::inner, typename Pair::outer>(
                      who, inner, {}, in_turn(s.hosts));
                  f(all);
                },
                {.as = Pair::as});
}

// What rank r gives: floats whose sum hangs on the order.
float given(int rank, std::size_t i) { return 1.0F / static_cast<float>(3 + rank * 7 + static_cast<int>(i % 1000)); }
std::vector<float> input_of(int rank, std::size_t count) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = given(rank, i);
  return x;
}
// The index of the chunk that holds element i.
int chunk_of(ringlet::partition chunks, std::size_t i) {
  std::size_t c = 0;
  while (i >= chunks.offset(c) + chunks.length(c)) ++c;
  return static_cast<int>(c);
}
// The sum in the order that the documentation gives.
float expected(shape s, std::size_t count, std::size_t i) {
  ringlet::partition const chunks{count, static_cast<std::size_t>(s.places)};
  int const chunk = chunk_of(chunks, i);
  auto const l = static_cast<std::size_t>(chunk);
  int const part = chunk_of({chunks.length(l), static_cast<std::size_t>(s.hosts)}, i - chunks.offset(l));
  auto const of_host = [&](int host) {
    auto const rank = [&](int place) { return place % s.places * s.hosts + host % s.hosts; };
    float sum = given(rank(chunk + 1), i);
    for (int k = 2; k <= s.places; ++k) sum += given(rank(chunk + k), i);
    return sum;
  };
  float sum = of_host(part + 1);
  for (int k = 2; k <= s.hosts; ++k) sum += of_host(part + k);
  return sum;
}
void expect_sums(std::vector<float> const& got, shape s, std::string const& words) {
  for (std::size_t i = 0; i < got.size(); ++i)
    expect(got[i] == expected(s, got.size(), i), words + ", element " + std::to_string(i));
}

struct root_mean_square {
  using commutative_and_associative = std::true_type;
  double operator()(double a, double b) const { return a + b; }
  double lift(double x) const { return x * x; }
  double finish(double v, int n) const { return std::sqrt(v / n); }
};

}  // namespace

OVER_PAIRS("any shape and count: sums in the documented order, in place and out of place") {
  for (shape const s : shapes)
    CHECK(on<Pair>(s, [&](auto& all) {
            expect(all.size() == s.hosts * s.places, "the size");
            expect(all.inner().size() == s.places && all.outer().size() == s.hosts, "the sizes of the parts");
            expect(all.outer().rank() == all.rank() % s.hosts && all.inner().rank() == all.rank() / s.hosts, "places");
            for (std::size_t count : {0, 1, 2, 5, 7, 1001, 20'003}) {
              auto const input = input_of(all.rank(), count);
              auto output = std::vector<float>(count), in_place = input;
              ringlet::all_reduce(all, input, output);
              expect(input == input_of(all.rank(), count), "the input was written");
              expect_sums(output, s, "out of place");
              ringlet::all_reduce(all, in_place);
              expect_sums(in_place, s, "in place");
            }
          }) == 0);
}

TEST_CASE("rings inside and mapped memory across, and memory that all ranks of a host have allocated") {
  using both = over<ringlet::shared_memory, ringlet::shared_memory, ranks_as::processes>;
  shape const s{2, 2};
  CHECK(on<both>(
            s,
            [&](auto& all) {
              auto x = input_of(all.rank(), 20'003);
              ringlet::all_reduce(all, x);
              expect_sums(x, s, "ordinary memory");
              auto const memory = all.inner().template allocate<float>(20'003);
              for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = given(all.rank(), i);
              ringlet::all_reduce(all, memory);
              expect_sums(std::vector<float>(memory.begin(), memory.end()), s, "allocated memory");
            },
            with_slots<ringlet::shared_memory>(3, 256)) == 0);
}

OVER_PAIRS("an average is divided once, by the number of all ranks") {
  CHECK(on<Pair>({2, 2}, [](auto& all) {
          // Divided on each host: 3 / 2 + 1 / 2 = 1, and 1 / 2 = 0. Divided by the hosts only: 4 / 2 = 2.
          std::vector<int> x(7, std::vector{2, 1, 1, 0}[static_cast<std::size_t>(all.rank())]);
          ringlet::all_reduce(all, x, ringlet::average{});
          expect(x == std::vector<int>(7, 1), "the average");
        }) == 0);
}

OVER_PAIRS("scaled_sum scales each rank's input once") {
  CHECK(on<Pair>({2, 3}, [](auto& all) {
          std::vector<double> x(7, 1.0);
          ringlet::all_reduce(all, x, ringlet::scaled_sum{10.0 + all.rank()});
          expect(x == std::vector<double>(7, 75.0), "the sum");
        }) == 0);
}

OVER_PAIRS("an operator of one's own begins at every rank and ends once, whatever the shape") {
  for (shape const s : shapes)
    CHECK(on<Pair>(s, [](auto& all) {
            std::vector<double> x(5, all.rank() + 1.0);
            ringlet::all_reduce(all, x, root_mean_square{});
            double squares = 0;
            for (int r = 1; r <= all.size(); ++r) squares += r * r;
            expect(x == std::vector<double>(5, std::sqrt(squares / all.size())), "the root");
          }) == 0);
}

OVER_PAIRS("maximum, with a number that is none") {
  CHECK(on<Pair>({2, 2}, [](auto& all) {
          std::vector<float> x{static_cast<float>(all.rank()), -1.0F - static_cast<float>(all.rank()), 0};
          if (all.rank() == 2) x[2] = std::numeric_limits<float>::quiet_NaN();
          ringlet::all_reduce(all, x, ringlet::maximum{});
          expect(x[0] == 3 && x[1] == -1 && std::isnan(x[2]), "the largest");
        }) == 0);
}

OVER_PAIRS("with policies: the same bits on all ranks, and an average that is right") {
  using ringlet::bfloat16;
  CHECK(on<Pair>({2, 2}, [](auto& all) {
          auto x = input_of(all.rank(), 1001);
          ringlet::all_reduce(all, x, ringlet::travel_as<bfloat16>(ringlet::average{}));
          // All have the bits that rank 0 has.
          std::vector<float> low = x, high = x;
          ringlet::all_reduce(all, low, ringlet::minimum{});
          ringlet::all_reduce(all, high, ringlet::maximum{});
          expect(low == high, "different bits");
          for (std::size_t i = 0; i < x.size(); ++i) {
            expect(x[i] == static_cast<float>(bfloat16(x[i])), "more than a bfloat16 holds");
            float const exact = expected({2, 2}, x.size(), i) / 4;
            expect(std::abs(x[i] - exact) < exact / 40, "the average");
          }
          // Eight bits are not calculated in, so the accumulator must be known in every step.
          std::vector const small(9, ringlet::float8_e4m3(all.rank() + 1.0F));
          std::vector<ringlet::float8_e4m3> sums(9);
          ringlet::all_reduce(all, small, sums, ringlet::accumulate_in<float>(ringlet::sum{}));
          for (auto v : sums) expect(static_cast<float>(v) == 10, "the sum in eight bits");
        }) == 0);
}

TEST_CASE("a barrier lets nobody go before all have come") {
  std::atomic<int> come = 0;
  CHECK(on<of_threads>({3, 2}, [&](auto& all) {
          for (int i = 1; i <= 20; ++i) {
            ++come;
            ringlet::barrier(all);
            expect(come >= 6 * i, "went too early");
            ringlet::barrier(all);
          }
        }) == 0);
}

TEST_CASE("a rank that has ended is named by all others, also those who have no link to it") {
  for (int victim = 0; victim < 6; ++victim)
    CHECK(on<of_processes>({3, 2}, [&](auto& all) {
            std::vector<float> x(20'003, 1.0F);
            ringlet::all_reduce(all, x);
            if (all.rank() == victim) ::_exit(0);
            auto const start = std::chrono::steady_clock::now();
            auto const e = error_of([&] {
              for (int i = 0; i < 3; ++i) ringlet::all_reduce(all, x);
            });
            expect(e, errc::peer_lost, "has ended");
            expect(e, errc::peer_lost, "as numbered among ranks ");
            expect(e->peer() == victim, "it was said to be rank " + std::to_string(e->peer()));
            expect(std::chrono::steady_clock::now() - start < 5s, "that took long");
            expect(error_of([&] { ringlet::barrier(all); }).has_value(), "the communicator goes on");
          }) == 0);
}

OVER_PAIRS("abort ends it on all ranks, in the words of who did it") {
  CHECK(on<Pair>({2, 2}, [](auto& all) {
          std::vector<int> x(1000);
          if (all.rank() == 2) return all.abort("enough");
          auto const e = error_of([&] {
            for (;;) ringlet::all_reduce(all, x);
          });
          expect(e, errc::aborted, "rank 2: enough");
          expect(e->peer() == 2, "it was said to be rank " + std::to_string(e->peer()));
        }) == 0);
}

OVER_PAIRS("ranks that call different things find out, all of them") {
  // One rank, or a whole host.
  for (int hosts_that_err : {0, 1})
    CHECK(on<Pair>({2, 2}, [&](auto& all) {
            bool const errs = hosts_that_err == 0 ? all.rank() == 3 : all.outer().rank() == 1;
            std::vector<int> x(1000);
            auto const e = error_of([&] {
              if (errs)
                ringlet::all_reduce(all, x, ringlet::average{});
              else
                ringlet::all_reduce(all, x);
            });
            expect(e, errc::mismatch, "average");
          }) == 0);
  for (int hosts_that_err : {0, 1})
    CHECK(on<Pair>({2, 2}, [&](auto& all) {
            bool const errs = hosts_that_err == 0 ? all.rank() == 3 : all.outer().rank() == 1;
            std::vector<int> x(errs ? 1001 : 1000);
            expect(error_of([&] { ringlet::all_reduce(all, x); }), errc::mismatch, "as numbered among");
          }) == 0);
}

OVER_PAIRS("what is wrong is refused before anything is sent") {
  CHECK(on<Pair>({2, 2}, [](auto& all) {
          std::vector<int> x(8, 1), y(7);
          expect(error_of([&] { ringlet::all_reduce(all, x, y); }), errc::invalid_argument, "7 elements, the input 8");
          std::span const first(x.data(), 7), second(x.data() + 1, 7);
          expect(error_of([&] { ringlet::all_reduce(all, first, second); }), errc::invalid_argument, "overlap");
          struct large {
            char bytes[100'000];
          } const one{};
          std::vector<large> const huge(1, one);
          std::vector<large> too_huge(1, one);
          auto const first_wins = ringlet::commutative([](large const& a, large const&) { return a; });
          expect(error_of([&] { ringlet::all_reduce(all, huge, too_huge, first_wins); }), errc::invalid_argument,
                 "larger than a slot of 65536");
          ringlet::all_reduce(all, x);
          expect(x == std::vector<int>(8, 4), "the communicator is spoilt");
        }) == 0);
}

TEST_CASE("hosts are found when none are named") {
  CHECK(launch(3, [](self who) {
          auto all = ringlet::connect_hierarchical<ringlet::shared_memory, sockets>(who);
          expect(all.inner().size() == 3 && all.outer().size() == 1, "one host");
          std::vector<int> x{who.rank};
          ringlet::all_reduce(all, x);
          expect(x[0] == 3, "the sum");
        }) == 0);
}

TEST_CASE("hosts of different numbers of ranks are refused") {
  CHECK(launch(4, [](self who) {
          auto const e = error_of([&] {
            (void)ringlet::connect_hierarchical<ringlet::shared_memory, sockets>(who, {}, {},
                                                                                 by_name({"a", "b", "a", "a"}));
          });
          expect(e, errc::unsupported, "one host has 3 ranks (ranks 0, 2, 3), another 1 (rank 1)");
        }) == 0);
}

TEST_CASE("as many hosts must be named as there are ranks") {
  CHECK(launch(2, [](self who) {
          auto const e = error_of([&] {
            (void)ringlet::connect_hierarchical<ringlet::shared_memory, sockets>(who, {}, {}, by_name({"a"}));
          });
          expect(e, errc::invalid_argument, "1 names of hosts for 2 ranks");
        }) == 0);
}

TEST_CASE("a negative time to wait is refused before anyone is waited for") {
  ringlet::connect_options<sockets> soon, never;
  soon.connect_timeout = never.connect_timeout = std::chrono::milliseconds(50);
  never.timeout = std::chrono::milliseconds(-5);
  ringlet::memory_store store;
  ringlet::bootstrap<ringlet::memory_store> const one{0, 2, store};
  expect(error_of([&] { (void)ringlet::connect_hierarchical<sockets, sockets>(one, soon, never); }),
         errc::invalid_argument, "::timeout is -5 ms");
  expect(error_of([&] { (void)ringlet::connect_hierarchical<sockets, sockets>(one, never, soon); }),
         errc::invalid_argument, "::timeout is -5 ms");
}

TEST_CASE("when one host cannot connect, all ranks hear why at once") {
  CHECK(launch(4, [](self who) {
          auto const start = std::chrono::steady_clock::now();
          ringlet::connect_options<ringlet::shared_memory> inner;
          if (who.rank % 2 == 1) inner.transport.directory = "/proc/no such directory";
          auto const e = error_of([&] {
            (void)ringlet::connect_hierarchical<ringlet::shared_memory, sockets>(who, inner, {}, in_turn(2));
          });
          expect(e.has_value(), "connected");
          expect(contains(e->what(), "/proc/no such directory"), e->what());
          expect(contains(e->what(), "as numbered among ranks 1, 3"), e->what());
          expect(e->peer() == 1, "who is at fault");
          expect(std::chrono::steady_clock::now() - start < 10s, "that took long");
        }) == 0);
}
