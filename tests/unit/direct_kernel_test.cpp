// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels without a ring give the bits that the host's ring gives, by whatever route.
#include "ringlet/direct_kernel.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../kernel_world.hpp"

namespace {

using namespace ringlet;
using namespace kernel_world;

// One window, which is the whole address space, from its second byte on: to a null pointer nothing may be added.
position located(void const* p) { return {1, p != nullptr ? reinterpret_cast<std::uintptr_t>(p) - 1 : 0}; }
std::vector<std::byte*> const everything(most_device_peers, reinterpret_cast<std::byte*>(1));

template <collective What, class T, class Op>
std::vector<direct_kernel<What, T, Op>> bodies_of(ranks const& all, world<What, T>& w, kernel_route route, Op op,
                                                  std::uint64_t patience = 20 * second) {
  std::vector<direct_kernel<What, T, Op>> bodies;
  call called;
  called.count = w.count;
  for (int r = 0; r < w.size; ++r) {
    auto const at = w.of(r);
    bodies.push_back({all.lane(r),
                      at,
                      route,
                      {op, w.size},
                      {called, located(at.input), located(at.output)},
                      everything.data(),
                      patience});
  }
  return bodies;
}

constexpr kernel_route routes[] = {kernel_route::one_shot, kernel_route::staged, kernel_route::direct};

// All sizes and routes, one after the other on the same lanes. Stages are so small that most need several rounds.
template <collective What, class T, class Op>
void check_routes(Op op, int size, unsigned lanes, std::uint64_t seed, unsigned threads,
                  std::vector<std::size_t> const& counts) {
  ranks all({.ranks = size, .lanes = lanes, .slots = 2, .slot_bytes = 128, .line_count = 1, .stage_bytes = 1024});
  for (std::size_t count : counts)
    for (std::size_t apart : {1, 0})  // with 0, buffers are often aligned alike
      for (bool in_place : {false, true}) {
        world<What, T> expected(size, count, in_place, apart);
        by_the_host(expected, op);
        for (kernel_route route : routes) {
          CAPTURE(size);
          CAPTURE(count);
          CAPTURE(in_place);
          CAPTURE(threads);
          CAPTURE(static_cast<int>(route));
          world<What, T> got(size, count, in_place, apart);
          run(seed, threads, bodies_of(all, got, route, op), lanes);
          for (int r = 0; r < size; ++r)
            for (unsigned i = 0; i < lanes; ++i) REQUIRE(all.lane(r, i)->failed.acquire() == 0);
          REQUIRE(got == expected);
        }
      }
}

}  // namespace

TEST_CASE_TEMPLATE("kernels without a ring give the bits of the host's ring", T, float, bfloat16) {
  for (int size : {1, 2, 3}) check_routes<collective::all_reduce, T>(sum{}, size, 2, 0, 2, {0, 1, 64, 1001});
  if (!fibres_too) return;
  std::uint64_t seed = 1;
  for (unsigned threads : {1u, 33u, 128u})
    for (int size : {2, 4}) check_routes<collective::all_reduce, T>(sum{}, size, 2, seed++, threads, {3, 512, 2001});
}

TEST_CASE("all collectives, other types, and what only the last contribution goes through") {
  std::uint64_t const seed = fibres_too ? 7 : 0;
  unsigned const threads = fibres_too ? 33 : 2;
  for (int size : {2, 3}) {
    check_routes<collective::reduce_scatter, double>(average{}, size, 1, seed, threads, {1, 500});
    check_routes<collective::all_gather, std::int32_t>(keep{}, size, 3, seed, threads, {1, 500});
    check_routes<collective::all_gather, float>(travel_as<bfloat16>(keep{}), size, 2, seed, threads, {500});
    check_routes<collective::all_reduce, float>(travel_as<bfloat16>(sum{}), size, 2, seed, threads, {500});
    check_routes<collective::all_reduce, float8_e5m2>(accumulate_in<float>(sum{}), size, 1, seed, threads, {500});
  }
}

TEST_CASE("if one rank's memory is out of reach, all go by the stages") {
  for (int outside : {0, 2}) {
    ranks all({.ranks = 3, .lanes = 2, .slots = 2, .slot_bytes = 128, .line_count = 1, .stage_bytes = 1024});
    world<collective::all_reduce, float> expected(3, 777, false), got(3, 777, false);
    by_the_host(expected, sum{});
    auto bodies = bodies_of(all, got, kernel_route::direct, sum{});
    bodies[static_cast<unsigned>(outside)].mine.output.window = 0;
    run(0, 2, bodies, 2);
    CHECK(all.lane(0)->shots > 0);
    CHECK(got == expected);
  }
}

TEST_CASE("a rank that does not come lets the others' kernels end, and their reports say who") {
  ranks all({.ranks = 3, .lanes = 1, .slots = 2, .slot_bytes = 128});
  world<collective::all_reduce, float> w(3, 100, false);
  auto bodies = bodies_of(all, w, kernel_route::one_shot, sum{}, second / 2);  // and rank 1 surely comes
  bodies.pop_back();
  run(0, 2, bodies, 1);
  int timed_out = 0;
  for (int r = 0; r < 2; ++r) {
    auto const said = kernel_report::verdict::unpack(all.lane(r)->report->said.acquire());
    REQUIRE(said.why != kernel_fault::none);
    if (said.why == kernel_fault::timed_out) {
      ++timed_out;
      CHECK(said.peer == 2);
    } else {
      CHECK(said.peer == 1 - r);
    }
  }
  CHECK(timed_out >= 1);
}

TEST_CASE("ranks that call different things find out, before they touch any output") {
  ranks all({.ranks = 3, .lanes = 1, .slots = 2, .slot_bytes = 128});
  world<collective::all_reduce, float> w(3, 100, false);
  auto const before = w;
  auto bodies = bodies_of(all, w, kernel_route::direct, sum{});
  bodies[1].mine.called.count = 99;
  run(0, 2, bodies, 1);
  for (int r = 0; r < 3; ++r) {
    auto const said = kernel_report::verdict::unpack(all.lane(r)->report->said.acquire());
    CHECK((said.why == kernel_fault::differs || said.why == kernel_fault::stopped));
    if (said.why != kernel_fault::differs) continue;
    CHECK((said.peer == 1) == (r != 1));
    CHECK(all.lane(r)->report->theirs.count == (r == 1 ? 100 : 99));
  }
  CHECK(w == before);
}
