// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Flagged lines give the bits that the host's ring gives.
#include "ringlet/line_kernel.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../kernel_world.hpp"

namespace {

using namespace ringlet;
using namespace kernel_world;

template <collective What, class T, class Op>
std::vector<line_kernel<What, T, Op>> bodies_of(ranks const& all, world<What, T>& w, Op op,
                                                std::uint64_t patience = 20 * second) {
  std::vector<line_kernel<What, T, Op>> bodies;
  call called;
  called.count = w.count;
  for (int r = 0; r < w.size; ++r) bodies.push_back({all.lane(r), w.of(r), {op, w.size}, called, patience});
  return bodies;
}

void set_letters(ranks const& all, std::uint64_t letters) {
  for (int r = 0; r < all.layout().ranks; ++r)
    for (unsigned i = 0; i < all.layout().lanes; ++i) all.lane(r, i)->letters = letters;
}

// All sizes, one after the other on the same lanes.
template <collective What, class T, class Op>
void check_lines(Op op, int size, unsigned lanes, std::uint64_t seed, unsigned threads,
                 std::vector<std::size_t> const& counts) {
  ranks all({.ranks = size, .lanes = lanes, .slots = 2, .slot_bytes = 128, .line_count = 300, .stage_bytes = 1024});
  set_letters(all, (std::uint64_t{1} << 32) - 3);  // numbers come again soon
  for (std::size_t count : counts)
    for (bool in_place : {false, true}) {
      CAPTURE(size);
      CAPTURE(count);
      CAPTURE(in_place);
      CAPTURE(threads);
      world<What, T> expected(size, count, in_place), got(size, count, in_place);
      by_the_host(expected, op);
      using kernel = line_kernel<What, T, Op>;
      REQUIRE(kernel::lines(partition{count, static_cast<std::size_t>(size)}, lanes) <= 300);
      run(seed, threads, bodies_of(all, got, op), lanes);
      for (int r = 0; r < size; ++r)
        for (unsigned i = 0; i < lanes; ++i) REQUIRE(all.lane(r, i)->failed.acquire() == 0);
      REQUIRE(got == expected);
    }
}

}  // namespace

TEST_CASE_TEMPLATE("lines give the bits of the host's ring", T, float, std::int64_t, bfloat16) {
  for (int size : {1, 2, 3}) check_lines<collective::all_reduce, T>(sum{}, size, 2, 0, 2, {0, 1, 2, 64, 501});
  if (!fibres_too) return;
  std::uint64_t seed = 1;
  for (unsigned threads : {1u, 33u, 128u})
    for (int size : {2, 4}) check_lines<collective::all_reduce, T>(sum{}, size, 2, seed++, threads, {3, 100, 501});
}

TEST_CASE("all collectives, other types, and what only the last contribution goes through") {
  std::uint64_t const seed = fibres_too ? 7 : 0;
  unsigned const threads = fibres_too ? 33 : 2;
  for (int size : {2, 3}) {
    check_lines<collective::reduce_scatter, double>(average{}, size, 1, seed, threads, {1, 200});
    check_lines<collective::all_gather, std::int32_t>(keep{}, size, 3, seed, threads, {1, 500});
    check_lines<collective::all_gather, float>(travel_as<bfloat16>(keep{}), size, 1, seed, threads, {501});
    check_lines<collective::all_reduce, float>(travel_as<bfloat16>(sum{}), size, 1, seed, threads, {501});
    check_lines<collective::all_reduce, float8_e5m2>(accumulate_in<float>(sum{}), size, 1, seed, threads, {501});
  }
}

TEST_CASE("now and then all lines are written, so that no number is met again") {
  ranks all({.ranks = 2, .lanes = 1, .slots = 2, .slot_bytes = 128, .line_count = 20, .stage_bytes = 128});
  set_letters(all, (std::uint64_t{1} << 30) - 1);
  world<collective::all_reduce, float> w(2, 4, false);
  for (std::uint32_t number = 1U << 30; number < (1U << 30) + 2; ++number) {
    run(0, 2, bodies_of(all, w, sum{}), 1);
    for (std::size_t i = 0; i < 20; ++i)
      CHECK(all.lane(0)->places[0].lines[(number % 2 * 2 + 1) * 20 + i].has(number + 1));
  }
}

TEST_CASE("C86: a line has come when both its halves have") {
  flagged_line line = flagged_line::make(0x0123456789abcdef, 7);
  CHECK(line.has(7));
  CHECK(!line.has(8));
  CHECK(line.data() == 0x0123456789abcdef);
  flagged_line other{};
  other.store(line);
  CHECK(other.load().data() == line.data());
  for (int half : {0, 1}) {
    flagged_line torn = line;
    torn.half[half] = 0;
    CHECK(!torn.has(7));
  }
}

TEST_CASE("a rank that does not come lets the others' kernels end") {
  ranks all({.ranks = 3, .lanes = 1, .slots = 2, .slot_bytes = 128});
  world<collective::all_reduce, float> w(3, 100, false);
  auto bodies = bodies_of(all, w, sum{}, second / 20);
  bodies.pop_back();
  run(0, 2, bodies, 1);
  for (int r = 0; r < 2; ++r) CHECK(all.lane(r)->report->said.acquire() != 0);
}

TEST_CASE("ranks that call different things find out") {
  ranks all({.ranks = 2, .lanes = 1, .slots = 2, .slot_bytes = 128});
  world<collective::all_reduce, float> w(2, 100, false);
  auto bodies = bodies_of(all, w, sum{});
  bodies[1].called.count = 99;
  run(0, 2, bodies, 1);
  int differs = 0;
  for (int r = 0; r < 2; ++r) {
    auto const said = kernel_report::verdict::unpack(all.lane(r)->report->said.acquire());
    CHECK(said.why != kernel_fault::none);
    if (said.why != kernel_fault::differs) continue;
    ++differs;
    CHECK(said.peer == 1 - r);
  }
  CHECK(differs >= 1);
}
