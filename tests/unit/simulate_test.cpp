// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/simulate.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include "ringlet/cost.hpp"

using namespace ringlet;

namespace {

std::size_t allocated = 0;  // bytes, so far

using all_reduce_ring = ring_schedule<collective::all_reduce>;
using reduce_scatter_ring = ring_schedule<collective::reduce_scatter>;
using all_gather_ring = ring_schedule<collective::all_gather>;

constexpr double us = 1e-6, ns = 1e-9;

// Slices of one size, and slots that never hold anybody up.
simulated::settings ring(int ranks, std::size_t slices, double gamma = 0.25 * ns) {
  return {.ranks = ranks, .slots = 2 * slices, .wires = {{.alpha = us, .beta = ns}}, .members = {{.gamma = gamma}}};
}
// The closed form in picoseconds: all whole numbers, so that nothing is rounded.
template <schedule S>
virtual_time closed_form(int ranks, std::size_t chunk, std::size_t slices, double gamma = 250) {
  return virtual_time(static_cast<std::int64_t>(schedule_time(traffic_of<S>(0, ranks), static_cast<double>(chunk),
                                                              {1e6, 1000, gamma}, static_cast<int>(slices))));
}
template <schedule S>
simulation run(simulated::settings const& how, std::size_t chunk, std::size_t slices) {
  simulated world(how);
  return simulate<S>(world, chunk * static_cast<std::size_t>(how.ranks), {chunk / slices / how.lanes, slices});
}

template <schedule S>
void check_closed_form() {
  for (int n : {1, 2, 3, 4, 8, 16})
    for (std::size_t slices : {1, 2, 16, 64})
      for (std::size_t chunk : {64, 4096, 1 << 20})
        for (double gamma : {0.0, 0.25, 1.0}) {  // adding is not slower than the wire: there the form is exact
          CAPTURE(n);
          CAPTURE(slices);
          CAPTURE(chunk);
          CAPTURE(gamma);
          simulation const s = run<S>(ring(n, slices, gamma * ns), chunk, slices);
          CHECK(!s.why);
          CHECK(s.ended == closed_form<S>(n, chunk, slices, gamma * 1000));
          for (auto const& r : s.ranks) {
            CHECK(r.how == status::ready);
            CHECK(r.bytes == static_cast<std::size_t>(traffic_of<S>(0, n).sent) * chunk);
          }
        }
}

// What each rank has, and what it must have in the end.
struct world_of_sums {
  std::vector<std::vector<std::uint32_t>> in, out;
  std::vector<buffers<std::uint32_t>> memory;

  world_of_sums(int ranks, std::size_t count) {
    auto const n = static_cast<std::size_t>(ranks);
    in.resize(n), out.resize(n);
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t i = 0; i < count; ++i) in[r].push_back(static_cast<std::uint32_t>(i * 7 + r));
      out[r].resize(count);
      memory.push_back({in[r].data(), out[r].data(), {count, n}});
    }
  }
  std::size_t wrong() const {
    std::size_t all = 0, n = in.size();
    for (auto const& mine : out)
      for (std::size_t i = 0; i < mine.size(); ++i) all += mine[i] != n * i * 7 + n * (n - 1) / 2;
    return all;
  }
};

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  allocated += bytes;
  if (void* const p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

TEST_CASE("times are those of the closed forms, to the picosecond") {
  check_closed_form<all_reduce_ring>();
  check_closed_form<reduce_scatter_ring>();
  check_closed_form<all_gather_ring>();
}

TEST_CASE("lanes with wires of their own share the bytes") {
  auto how = ring(4, 4);
  how.lanes = 2;
  CHECK(run<all_reduce_ring>(how, 1 << 20, 4).ended == closed_form<all_reduce_ring>(4, 1 << 19, 4));
}

TEST_CASE("links that share one wire take turns: it is never idle, and carries all bytes") {
  constexpr std::size_t chunk = 1 << 16;
  for (std::size_t lanes : {1, 2}) {
    auto how = ring(4, 4);
    how.lanes = lanes;
    how.over.assign(4 * lanes, 0);
    auto const s = run<all_reduce_ring>(how, chunk, 4);
    // 4 ranks send 6 chunks each; alpha is less than what the others need meanwhile.
    CHECK(s.ended == virtual_time(24 * chunk * 1000 + 1'000'000));
  }
}

TEST_CASE("ranks that share processors wait for one: all work, over the processors, and no less than one rank's own") {
  for (int n : {2, 3, 8})
    for (std::size_t slices : {1, 4}) {
      // Sending 3 ns, receiving 3 ns and 0.25 ns a byte that is added; wires take no time, so that only work does.
      auto how = ring(n, slices);
      how.wires = {{}};
      how.members[0].overhead = 3 * ns;
      auto const ended = [&](std::size_t processors) {
        how.processors = processors;
        auto const s = run<all_reduce_ring>(how, 4096, slices);
        CHECK(!s.why);
        return s.ended;
      };
      auto const hops = 2 * (n - 1) * static_cast<std::int64_t>(slices);
      virtual_time const one(hops * 6000 + (n - 1) * 4096 * 250);
      CAPTURE(n);
      CAPTURE(slices);
      CHECK(ended(1) == n * one);
      CHECK(2 * ended(2) >= n * one);
      CHECK(ended(2) < ended(1));
      CHECK(ended(static_cast<std::size_t>(n)) == ended(0));
      CHECK(ended(0) >= one);
    }
}

TEST_CASE(
    "processors that are never all at work change nothing, and a world that shares them goes on and fails alike") {
  auto how = ring(4, 4);
  how.processors = 4;
  CHECK(run<all_reduce_ring>(how, 1 << 16, 4).ended == closed_form<all_reduce_ring>(4, 1 << 16, 4));
  simulated world(how);
  auto const first = simulate<all_reduce_ring>(world, 1 << 16, {1 << 12, 4});
  CHECK(simulate<all_reduce_ring>(world, 1 << 16, {1 << 12, 4}).ended == first.ended + first.ended);
  how.members.assign(4, how.members[0]);
  how.members[2].dies_at = 10 * us;
  auto const s = run<all_reduce_ring>(how, 1 << 16, 4);
  REQUIRE(s.why);
  CHECK(s.why->peer == 2);
}

TEST_CASE("a wire shared by two lanes takes as long as one lane does") {
  auto how = ring(4, 1);
  how.lanes = 2;
  how.over = {0, 0, 1, 1, 2, 2, 3, 3};
  how.wires.assign(4, how.wires[0]);
  how.members = {{.gamma = 0}};
  // The last of two messages leaves when one of twice the size would have.
  auto const s = run<all_gather_ring>(how, 1 << 16, 1);
  CHECK(s.ended >= virtual_time(3 * (1 << 16) * 1000 + 1'000'000));
  CHECK(s.ended <= closed_form<all_gather_ring>(4, 1 << 16, 1, 0));
}

TEST_CASE("a thousand ranks: memory is linear in ranks, and the time still the closed form's") {
  auto const bytes_of = [](int n) {
    std::size_t const before = allocated;
    CHECK(run<all_reduce_ring>(ring(n, 2), 4096, 2).ended == closed_form<all_reduce_ring>(n, 4096, 2));
    return allocated - before;
  };
  auto const few = bytes_of(64), many = bytes_of(1024);
  CHECK(many < 18 * few);
  CHECK(many / 1024 < 4096);
}

TEST_CASE("several rounds, slices that do not divide, few slots: slower than the form, never faster") {
  auto how = ring(5, 4);
  how.slots = 3;
  simulated world(how);
  auto const s = simulate<all_reduce_ring>(world, 5 * 10'007, {1000, 2});
  CHECK(!s.why);
  CHECK(s.ended > closed_form<all_reduce_ring>(5, 10'007, 11));
}

TEST_CASE("as many slices under way as slots lock the ring, as the proof says") {
  auto how = ring(4, 4);
  how.slots = 4;
  how.timeout = 2;
  auto const s = run<all_reduce_ring>(how, 4096, 4);
  REQUIRE(s.why);
  CHECK(s.why->why == errc::timed_out);
  CHECK(s.why->peer == -1);
  CHECK(std::string(s.why->words).find("all wait for each other") != std::string::npos);
}

TEST_CASE("with elements, sums are right, whatever is lost or late") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    for (std::size_t lanes : {1, 2}) {
      int const n = 2 + static_cast<int>(seed % 5);
      std::size_t const count = seed % 3 == 0 ? seed : 1000 + seed;
      auto how = ring(n, 2);
      how.seed = seed;
      how.lanes = lanes;
      how.slots = 3;
      how.slot_bytes = 64;
      how.wires = {{.alpha = us, .beta = ns, .loss = 0.1, .resend_after = 200 * us, .jitter = 5 * us}};
      if (seed % 2 == 0) {  // all over two wires
        how.over.resize(static_cast<std::size_t>(n) * lanes);
        for (std::size_t i = 0; i < how.over.size(); ++i) how.over[i] = i % 2;
        how.wires.push_back(how.wires[0]);
      }
      world_of_sums sums(n, count);
      simulated world(how);
      auto const s = simulate<all_reduce_ring>(world, sums.memory, {16, 2});
      CAPTURE(seed);
      CHECK(!s.why);
      CHECK(sums.wrong() == 0);
    }
}

TEST_CASE("elements change nothing about times") {
  auto how = ring(4, 2);
  auto const counted = run<all_reduce_ring>(how, 4 * 64, 2);
  how.slot_bytes = 128;
  world_of_sums sums(4, 256);
  simulated world(how);
  CHECK(simulate<all_reduce_ring>(world, sums.memory, {32, 2}).ended == counted.ended);
  CHECK(sums.wrong() == 0);
}

TEST_CASE("chance is the seed's: the same seed, the same times; loss and delay cost time") {
  auto const at = [](std::uint64_t seed, double loss, double jitter) {
    auto how = ring(4, 4);
    how.seed = seed;
    how.wires = {{.alpha = us, .beta = ns, .loss = loss, .resend_after = 100 * us, .jitter = jitter}};
    return run<all_reduce_ring>(how, 1 << 14, 4);
  };
  auto const good = at(1, 0, 0), lossy = at(1, 0.2, 0), late = at(1, 0, 10 * us);
  CHECK(at(1, 0.2, 0).ended == lossy.ended);
  CHECK(at(2, 0.2, 0).ended != lossy.ended);
  CHECK(lossy.ended >= good.ended + virtual_seconds(100 * us));
  CHECK(lossy.ranks[0].lost + lossy.ranks[1].lost + lossy.ranks[2].lost + lossy.ranks[3].lost > 4);
  CHECK(at(1, 0, 10 * us).ended == late.ended);
  CHECK(late.ended > good.ended);
}

TEST_CASE("a slow rank holds up all, and waits least itself") {
  auto how = ring(4, 4);
  auto const good = run<all_reduce_ring>(how, 1 << 14, 4);
  how.members.assign(4, how.members[0]);
  how.members[2].gamma = 20 * ns;
  auto const slow = run<all_reduce_ring>(how, 1 << 14, 4);
  // It adds three chunks, and the others do not hide that.
  CHECK(slow.ended >= good.ended + virtual_seconds(2 * 20 * ns * (1 << 14)));
  for (std::size_t r : {0, 1, 3}) CHECK(slow.ranks[r].waited > slow.ranks[2].waited);
}

TEST_CASE("a rank that comes late shifts the end by as much at most") {
  auto how = ring(4, 4);
  how.members.assign(4, how.members[0]);
  how.members[1].starts_at = 0.5;
  auto const s = run<all_reduce_ring>(how, 1 << 14, 4);
  CHECK(!s.why);
  CHECK(s.began == virtual_seconds(0.5));
  CHECK(s.ended - s.began <= closed_form<all_reduce_ring>(4, 1 << 14, 4));
}

TEST_CASE("a rank that dies: an error on all others that names it, at the deadline") {
  for (double dies_at : {0.0, 10 * us}) {
    auto how = ring(8, 4);
    how.members.assign(8, how.members[0]);
    how.members[5].dies_at = dies_at;
    how.timeout = 3;
    auto const s = run<all_reduce_ring>(how, 1 << 14, 4);
    CAPTURE(dies_at);
    REQUIRE(s.why);
    CHECK(s.why->why == errc::peer_lost);
    CHECK(s.why->peer == 5);
    CHECK(std::string(s.why->words).find("rank 5 has died") != std::string::npos);
    for (std::size_t r = 0; r < 8; ++r) {
      CHECK(s.ranks[r].how == (r == 5 ? status::pending : status::failed));
      if (r == 5) continue;
      CHECK(s.ranks[r].at == s.ended);
      CHECK(s.ranks[r].at >= virtual_seconds(3));
      CHECK(s.ranks[r].at < virtual_seconds(3) + virtual_seconds(dies_at) + virtual_seconds(20 * us));
    }
  }
  // Its neighbour waits from the moment at which it has sent all that it has: 4 slices, at no cost.
  auto how = ring(4, 4);
  how.members.assign(4, how.members[0]);
  how.members[1].dies_at = 0;
  how.timeout = 3;
  CHECK(run<all_reduce_ring>(how, 1 << 14, 4).ended == virtual_seconds(3));
}

TEST_CASE("a rank that dies after its part is done disturbs nobody") {
  auto how = ring(4, 4);
  how.members.assign(4, how.members[0]);
  how.members[1].dies_at = 1;
  auto const s = run<all_reduce_ring>(how, 1 << 14, 4);
  CHECK(!s.why);
  CHECK(s.ended == closed_form<all_reduce_ring>(4, 1 << 14, 4));
}

TEST_CASE("a rank that comes after the deadline is named, too") {
  auto how = ring(4, 4);
  how.members.assign(4, how.members[0]);
  how.members[3].starts_at = 10;
  how.timeout = 2;
  auto const s = run<all_reduce_ring>(how, 1 << 14, 4);
  REQUIRE(s.why);
  CHECK(s.why->why == errc::timed_out);
  CHECK(s.why->peer == 3);
  for (std::size_t r = 0; r < 3; ++r) CHECK(s.ranks[r].at == virtual_seconds(2));
}

TEST_CASE("one operation after the other: clocks go on") {
  simulated world(ring(4, 4));
  auto const first = simulate<all_reduce_ring>(world, 1 << 16, {1 << 12, 4});
  auto const second = simulate<all_reduce_ring>(world, 1 << 16, {1 << 12, 4});
  CHECK(second.began == first.ended);
  CHECK(second.ended == first.ended + first.ended);
}

TEST_CASE("what cannot work is refused in words") {
  auto const refused = [](auto&& f) -> std::string {
    try {
      f();
    } catch (error const& e) {
      return e.why() == errc::invalid_argument ? e.words() : "";
    }
    return "";
  };
  simulated counts(ring(2, 2)), holds({.ranks = 2, .slot_bytes = 64});
  world_of_sums sums(2, 10), three(3, 10);
  CHECK(refused([&] {
          simulate<all_reduce_ring>(counts, sums.memory, {4, 2});
        }).find("have no memory") != std::string::npos);
  CHECK(refused([&] { simulate<all_reduce_ring>(holds, 100, {4, 2}); }).find("slot_bytes to 0") != std::string::npos);
  CHECK(refused([&] {
          simulate<all_reduce_ring>(holds, three.memory, {4, 2});
        }).find("3 ranks, but 2") != std::string::npos);
  CHECK(refused([&] {
          simulate<all_reduce_ring>(holds, sums.memory, {17, 2});
        }).find("68 bytes does not fit") != std::string::npos);
  CHECK(refused([&] { simulate<all_reduce_ring>(counts, 100, {0, 2}); }).find("at least 1") != std::string::npos);
}
