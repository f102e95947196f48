// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/simulate_program.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "../ranks.hpp"
#include "ringlet/all_gather.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/cost.hpp"
#include "ringlet/pipeline.hpp"
#include "ringlet/point_to_point.hpp"
#include "ringlet/reduce_scatter.hpp"
#include "ringlet/split.hpp"

using namespace ringlet;
using tests::contains;

static_assert(transport<simulated_ring> && pairwise<simulated_ring>);

namespace {

constexpr double us = 1e-6, ns = 1e-9;

simulated::settings ring(int ranks, std::size_t lanes = 1) {
  return {.ranks = ranks,
          .lanes = lanes,
          .slots = 4,
          .slot_bytes = 4096,
          .wires = {{.alpha = us, .beta = ns}},
          .members = {{.gamma = 0.25 * ns}}};
}

// The error that f ends with.
template <class F>
std::string words_of(F&& f) {
  try {
    f();
  } catch (error const& e) {
    return e.words();
  }
  return "";
}

}  // namespace

TEST_CASE("all collectives of a program are right, on any number of ranks and lanes") {
  for (int n : {1, 2, 3, 5, 16})
    for (std::size_t lanes : {1, 2})
      for (std::size_t count : {0, 1, 7, 1000, 30'001}) {
        simulated world(ring(n, lanes));
        std::size_t wrong = 0;
        auto const run = simulate_program(world, [&](auto& comm) {
          auto const me = static_cast<std::size_t>(comm.rank()), size = static_cast<std::size_t>(n);
          auto const chunks = comm.chunks(count);
          std::vector<std::uint32_t> x(count), sum(count), part(chunks.length(me)), all(count);
          for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<std::uint32_t>(i * 7 + me);
          auto const expected = [&](std::size_t i) { return size * i * 7 + size * (size - 1) / 2; };
          all_reduce(comm, x, sum);
          barrier(comm);
          reduce_scatter(comm, x, part);
          all_gather(comm, part, all);
          for (std::size_t i = 0; i < count; ++i) wrong += sum[i] != expected(i) || all[i] != expected(i);
        });
        CAPTURE(n);
        CAPTURE(lanes);
        CAPTURE(count);
        CHECK(!run.why);
        CHECK(wrong == 0);
      }
}

TEST_CASE("a program's all_reduce takes what the closed form says") {
  // A chunk of 2 slices of 4096 bytes, 2 under way.
  simulated world(ring(4));
  auto const run = simulate_program(world, [](auto& comm) {
    std::vector<float> x(4 * 8192 / sizeof(float));
    all_reduce(comm, x);
  });
  link_cost const wire{1e6, 1000, 250};
  auto const form = schedule_time(traffic_of<ring_schedule<collective::all_reduce>>(0, 4), 8192, wire, 2);
  CHECK(run.ended == virtual_time(static_cast<std::int64_t>(form)));
}

TEST_CASE("computation hides an exchange that is polled beside it") {
  auto const took = [](bool exchanges, bool beside) {
    simulated world(ring(4));
    return simulate_program(world,
                            [&](auto& comm) {
                              std::vector<float> x(1 << 16);
                              if (!exchanges) return comm.transport().compute(1e-3);
                              auto exchange = async_all_reduce(comm, x);
                              for (int i = 0; beside && i < 1000; ++i) {
                                comm.transport().compute(1e-6);
                                exchange.poll();
                              }
                              exchange.wait();
                              if (!beside) comm.transport().compute(1e-3);
                            })
        .seconds();
  };
  double const computation = took(true, true), both = took(true, false), alone = took(false, false);
  CHECK(alone == 1e-3);
  CHECK(both > 1.39e-3);                                                    // 6 x 64 KiB at 1 GB/s
  CHECK(computation == doctest::Approx(1e-3 + 3 * (1 << 16) * 0.25 * ns));  // sums take the rank itself
}

TEST_CASE("ranks keep time for themselves") {
  simulated world(ring(3));
  auto const run = simulate_program(world, [](auto& comm) {
    comm.transport().compute(comm.rank() * us);
    CHECK(comm.transport().now() == virtual_seconds(comm.rank() * us));
  });
  for (std::size_t r = 0; r < 3; ++r) CHECK(run.ranks[r].at == virtual_seconds(static_cast<double>(r) * us));
}

TEST_CASE("a dead rank is an error on all others, which names it, at the virtual deadline") {
  for (std::size_t lanes : {1, 2}) {
    auto how = ring(4, lanes);
    how.members.assign(4, how.members[0]);
    how.members[2].dies_at = 100 * us;
    how.timeout = 3;
    simulated world(how);
    std::vector<std::string> said(4);
    auto const run = simulate_program(world, [&](auto& comm) {
      std::vector<float> x(1000);
      said[static_cast<std::size_t>(comm.rank())] = words_of([&] {
        for (;;) all_reduce(comm, x);
      });
      throw error(errc::peer_lost, "over");
    });
    REQUIRE(run.why);
    CHECK(run.why->peer == 2);
    for (std::string const& words : said) CHECK(contains(words, "rank 2 has died"));
    for (auto const& r : run.ranks) CHECK(r.how == status::failed);
    CHECK(run.ranks[2].at <= virtual_seconds(100 * us));
    for (std::size_t r : {0, 1, 3}) CHECK(run.ranks[r].at == run.ended);
    CHECK(run.ended > virtual_seconds(3));
    CHECK(run.ended < virtual_seconds(3 + 200 * us));
  }
}

TEST_CASE("who polls and computes waits, too, and has a deadline") {
  auto how = ring(3);
  how.members.assign(3, how.members[0]);
  how.members[1].dies_at = 0;
  how.timeout = 1e-3;
  simulated world(how);
  auto const run = simulate_program(world, [](auto& comm) {
    comm.transport().compute(5e-3);  // that is no wait
    std::vector<float> x(1000);
    auto exchange = async_all_reduce(comm, x);
    while (exchange.poll() == status::pending) comm.transport().compute(10 * us);
    exchange.wait();
  });
  REQUIRE(run.why);
  CHECK(run.why->why == errc::peer_lost);
  CHECK(run.why->peer == 1);
  CHECK(run.ranks[0].at >= virtual_seconds(6e-3));
  CHECK(run.ranks[0].at < virtual_seconds(6.1e-3));
}

TEST_CASE("a mismatched call, and abort, end the ring for all, in words that name who it was") {
  {
    simulated world(ring(4));
    std::vector<std::string> said(4);
    simulate_program(world, [&](auto& comm) {
      std::vector<float> x(comm.rank() == 1 ? 2000 : 1000);
      said[static_cast<std::size_t>(comm.rank())] = words_of([&] { all_reduce(comm, x); });
    });
    for (std::string const& words : said) CHECK((contains(words, "all_reduce of 2000") && contains(words, "of 1000")));
  }
  {
    simulated world(ring(4));
    std::vector<std::string> said(4);
    simulate_program(world, [&](auto& comm) {
      std::vector<float> x(1000);
      said[static_cast<std::size_t>(comm.rank())] = words_of([&] {
        for (int i = 0; i < 10; ++i) all_reduce(comm, x);
        if (comm.rank() == 3) comm.abort("enough");
        all_reduce(comm, x);
      });
    });
    for (std::string const& words : said) CHECK(contains(words, "rank 3: enough"));
  }
}

TEST_CASE("a rank that dies while nobody needs it leaves nothing behind, and is no failure of the ring") {
  auto how = ring(2);
  how.members.assign(2, how.members[0]);
  how.members[1].dies_at = 0.5;
  simulated world(how);
  int ended = 0;
  struct guard {
    int* count;
    ~guard() { ++*count; }
  };
  auto const run = simulate_program(world, [&](auto& comm) {
    guard const leaves{&ended};
    std::vector<float> x(1000);
    all_reduce(comm, x);
    comm.transport().compute(1);
  });
  CHECK(!run.why);
  CHECK(run.ranks[0].how == status::ready);
  CHECK(ended == 2);
}

TEST_CASE("a rank that leaves while others wait for it is named") {
  auto how = ring(3);
  how.timeout = 2;
  simulated world(how);
  auto const run = simulate_program(world, [](auto& comm) {
    if (comm.rank() == 1) return;
    std::vector<float> x(10);
    all_reduce(comm, x);
  });
  REQUIRE(run.why);
  CHECK(run.why->peer == 1);
  CHECK(run.ranks[1].how == status::ready);
  CHECK(run.ranks[0].how == status::failed);
}

TEST_CASE("messages go between any two ranks, in order, beside collectives") {
  for (int n : {2, 3, 5}) {
    simulated world(ring(n, 2));
    std::size_t wrong = 0;
    auto const run = simulate_program(world, [&](auto& comm) {
      int const me = comm.rank();
      auto const first = [&](int from, int to, int k) { return static_cast<std::uint32_t>(100 * from + 10 * to + k); };
      auto const size = [](int k) { return k == 2 ? std::size_t{20'000} : static_cast<std::size_t>(k); };
      for (int k = 0; k < 3; ++k)
        for (int away = 1; away < n; ++away) {
          int const to = (me + away) % n, from = (me + n - away) % n;
          std::vector<std::uint32_t> out(size(k), first(me, to, k)), in(out.size()), sum{1};
          auto outgoing = async_send(comm, out, to);
          all_reduce(comm, sum);
          recv(comm, in, from);
          outgoing.wait();
          for (std::uint32_t x : in) wrong += x != first(from, me, k);
          wrong += sum[0] != static_cast<std::uint32_t>(n);
        }
    });
    CAPTURE(n);
    CHECK(!run.why);
    CHECK(wrong == 0);
    auto const messages = static_cast<std::size_t>(n - 1) * (1 + 20'000) * sizeof(std::uint32_t);
    for (auto const& r : run.ranks) CHECK(r.bytes >= messages);
  }
}

TEST_CASE("a message takes a latency and its bytes, and what follows it begins after it") {
  auto all_reduced = [](auto& comm) {
    std::vector<float> x(4000);
    all_reduce(comm, x);
  };
  simulated only(ring(2)), world(ring(2));
  auto const alone = simulate_program(only, all_reduced);
  auto const run = simulate_program(world, [&](auto& comm) {
    std::vector<std::uint8_t> x(100'000);
    if (comm.rank() == 0) {
      comm.transport().compute(1e-3);
      send(comm, x, 1);
    } else {
      recv(comm, x, 0);
      CHECK(comm.transport().now() == virtual_seconds(1e-3 + us + 100'000 * ns));
    }
    all_reduced(comm);
  });
  CHECK(run.ended - run.began == virtual_seconds(1e-3 + us + 100'000 * ns) + (alone.ended - alone.began));
}

TEST_CASE("a message travels while its ranks compute between polls") {
  simulated world(ring(2));
  simulate_program(world, [](auto& comm) {
    std::vector<std::uint8_t> x(100'000);
    auto const finish = [&](auto message) {
      while (message.poll() == status::pending) comm.transport().compute(10 * us);
    };
    comm.rank() == 0 ? finish(async_send(comm, x, 1)) : finish(async_recv(comm, x, 0));
    CHECK(comm.transport().now() > virtual_seconds(90 * us));
    CHECK(comm.transport().now() < virtual_seconds(1e-3));
  });
}

TEST_CASE("of p stages and m microbatches, all but (p-1)/(m+p-1) of the time is work, to the picosecond") {
  auto const run = []<class Order>(Order, int stages, int microbatches) {
    simulated world({.ranks = stages, .slot_bytes = 64});
    auto const came = simulate_program(world, [&](auto& comm) {
      int const me = comm.rank();
      std::vector<float> handed(1);
      for (int k = 0; k < 2 * microbatches; ++k) {
        bool const forward = Order{me, stages, microbatches}[k].way == unit_of_work::direction::forward;
        int const from = forward ? me - 1 : me + 1, to = forward ? me + 1 : me - 1;
        if (0 <= from && from < stages) recv(comm, handed, from);
        comm.transport().compute(ns);
        if (0 <= to && to < stages) send(comm, handed, to);
      }
    });
    CAPTURE(stages);
    CAPTURE(microbatches);
    CHECK(!came.why);
    CHECK(came.ended - came.began == virtual_seconds(2 * (microbatches + stages - 1) * ns));
    CHECK(came.ended - came.began == virtual_seconds(pipeline_timeline::of<Order>(stages, microbatches).length() * ns));
  };
  for (int p : {1, 2, 4, 7})
    for (int m : {1, 4, 8, 32}) run(all_forward_then_backward{}, p, m), run(one_forward_one_backward{}, p, m);
}

TEST_CASE("whoever waits for several things gets them when they come, the first first") {
  auto how = ring(3);
  how.wires = {{.alpha = us, .beta = us}};
  simulated world(how);
  simulate_program(world, [](auto& comm) {
    std::vector<std::uint8_t> one(1), more(1000);
    if (comm.rank() == 1) return send(comm, one, 0);
    if (comm.rank() == 2) return send(comm, more, 0);
    auto late = async_recv(comm, more, 2);
    auto soon = async_recv(comm, one, 1);
    soon.wait();
    CHECK(comm.transport().now() == virtual_seconds(2 * us));
    late.wait();
    CHECK(comm.transport().now() == virtual_seconds(1001 * us));
  });
}

TEST_CASE("messages both ways between two ranks, longer than what is between them, do not wait for one another") {
  simulated world(ring(2));
  auto const run = simulate_program(world, [](auto& comm) {
    std::vector<std::uint8_t> out(200'000), in(200'000);
    int const other = 1 - comm.rank();
    auto incoming = async_recv(comm, in, other);
    auto outgoing = async_send(comm, out, other);
    incoming.wait();
    outgoing.wait();
    CHECK(comm.transport().now() >= virtual_seconds(us + 200'000 * ns));
    CHECK(comm.transport().now() <= virtual_seconds(2 * us + 200'000 * ns));
  });
  CHECK(!run.why);
  simulated other(ring(2));
  auto const one_way_first = simulate_program(other, [](auto& comm) {
    std::vector<std::uint8_t> much(200'000), one(1);
    if (comm.rank() == 1) return comm.transport().compute(1e-3), recv(comm, much, 0), send(comm, one, 0);
    auto outgoing = async_send(comm, much, 1);
    recv(comm, one, 1);
    outgoing.wait();
  });
  CHECK(!one_way_first.why);
}

TEST_CASE("time in which a rank computes is no wait, but for a tenth of the timeout at most") {
  auto how = ring(2);
  how.timeout = 1;
  simulated world(how);
  auto const run = simulate_program(world, [](auto& comm) {
    std::vector<float> x(1000);
    for (int i = 0; i < 3; ++i) {
      auto exchange = async_all_reduce(comm, x);
      exchange.poll();
      comm.transport().compute(5);
      exchange.wait();
    }
  });
  CHECK(!run.why);
}

TEST_CASE("a rank that waits in vain ends the ring while others go on for ever") {
  auto how = ring(4);
  how.members.assign(4, how.members[0]);
  how.members[1].dies_at = 0;
  how.timeout = 0.01;
  simulated world(how);
  auto const run = simulate_program(world, [](auto& comm) {
    std::vector<float> x(1);
    if (comm.rank() < 2) return recv(comm, x, 1 - comm.rank());
    for (;;) {
      if (comm.rank() == 2) send(comm, x, 3), recv(comm, x, 3);
      if (comm.rank() == 3) recv(comm, x, 2), send(comm, x, 2);
    }
  });
  REQUIRE(run.why);
  CHECK(run.why->peer == 1);
  CHECK(run.ended < virtual_seconds(0.011));
}

TEST_CASE("messages that never come end all ranks, in words that name who is at fault") {
  auto how = ring(3);
  how.members.assign(3, how.members[0]);
  how.timeout = 1;
  {
    simulated world(how);
    auto const run = simulate_program(world, [](auto& comm) {
      std::vector<float> x(1);
      if (comm.rank() < 2) recv(comm, x, 1 - comm.rank());
    });
    REQUIRE(run.why);
    CHECK(contains(std::string(run.why->words), "all wait for each other"));
  }
  for (bool has_sent : {false, true}) {
    simulated world(how);
    auto const run = simulate_program(world, [&](auto& comm) {
      std::vector<float> x(1);
      if (comm.rank() == 1 && has_sent) send(comm, x, 0);
      if (comm.rank() != 0) return;
      comm.transport().compute(10 * us);  // by now the others have left
      if (has_sent) recv(comm, x, 1);
      recv(comm, x, 1);
    });
    REQUIRE(run.why);
    CHECK(run.why->peer == 1);
  }
  how.members[2].dies_at = 100 * us;
  {
    simulated world(how);
    std::string said;
    auto const run = simulate_program(world, [&](auto& comm) {
      std::vector<float> x(1);
      comm.transport().compute(200 * us);
      if (comm.rank() == 2) send(comm, x, 0);
      if (comm.rank() == 0) said = words_of([&] { recv(comm, x, 2); });
    });
    REQUIRE(run.why);
    CHECK(run.why->peer == 2);
    CHECK(contains(said, "rank 2 has died"));
  }
  {
    simulated world(how);
    auto const run = simulate_program(world, [&](auto& comm) {  // 0 waits for 1, which waits for 2 elsewhere
      std::vector<float> x(1);
      if (comm.rank() == 0) recv(comm, x, 1);
      if (comm.rank() == 1) comm.transport().compute(us), recv(comm, x, 2);
      if (comm.rank() == 2) comm.transport().compute(1);
    });
    REQUIRE(run.why);
    CHECK(run.why->peer == 2);
  }
  {
    simulated world(ring(2));
    std::vector<std::string> said(2);
    simulate_program(world, [&](auto& comm) {
      std::vector<float> x(comm.rank() == 0 ? 20'000 : 19'999);
      said[static_cast<std::size_t>(comm.rank())] =
          words_of([&] { comm.rank() == 0 ? send(comm, x, 1) : recv(comm, x, 0); });
    });
    for (std::string const& words : said) CHECK((contains(words, "of 20000") && contains(words, "of 19999")));
  }
}

TEST_CASE("what a program throws comes out; what it asks in vain is refused") {
  simulated world(ring(2)), other(ring(2)), parts(ring(4)), counts({.ranks = 2});
  CHECK_THROWS_AS(simulate_program(world, [](auto&) { throw std::runtime_error("mine"); }), std::runtime_error);
  CHECK(contains(words_of([&] {
                   simulate_program(other, [](auto& comm) {
                     std::vector<float> x(10), y(9);
                     all_reduce(comm, x, y);
                   });
                 }),
                 "the output has 9"));
  CHECK(contains(words_of([&] { simulate_program(counts, [](auto&) {}); }), "set slot_bytes"));
  auto how = ring(2);
  how.processors = 1;
  simulated shares(how);
  CHECK(contains(words_of([&] { simulate_program(shares, [](auto&) {}); }), "set processors to 0"));
  simulated timeless(ring(1));
  for (double time : {-1.0, std::nan(""), 1e7})
    CHECK(contains(words_of([&] { simulate_program(timeless, [&](auto& comm) { comm.transport().compute(time); }); }),
                   "give 0 to 1e6"));
  simulated again(ring(2));
  CHECK(contains(words_of([&] { simulate_program(again, [](auto& comm) { comm.split(0, -comm.rank()); }); }),
                 "has no parts"));
  simulated failed(ring(2)), mine(ring(2));
  simulate_program(failed, [](auto& comm) { comm.abort("enough"); });
  CHECK(contains(words_of([&] { simulate_program(failed, [](auto&) {}); }), "has failed before"));
  CHECK(contains(words_of([&] {
                   simulate_program(mine, [](auto& comm) {  // one rank alone is wrong, the other waits for it
                     std::vector<float> x(10), y(9);
                     comm.rank() == 0 ? all_reduce(comm, x) : all_reduce(comm, x, y);
                   });
                 }),
                 "the output has 9"));
  meeting_of_one alone;
  CHECK(contains(words_of([&] { simulated_ring(alone, {}, {}); }), "for programs in simulate_program"));
}
