// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernel bodies, run by threads and by fibres in a device's place, give the bits that the host's engine gives. Thread
// Sanitizer sees in this what they owe each other.
#include "ringlet/cuda_kernels.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "../kernel_world.hpp"

namespace {

using namespace ringlet;
using namespace kernel_world;

template <collective What, class T, class Op>
std::vector<ring_kernel<What, T, Op>> rings(ranks const& all, world<What, T>& w, Op op,
                                            std::uint64_t patience = 20 * second) {
  std::vector<ring_kernel<What, T, Op>> bodies;
  std::size_t const fit = all.layout().slot_bytes / sizeof(typename arithmetic<T, Op>::wire);
  call called;
  called.count = w.count;
  for (int r = 0; r < w.size; ++r) bodies.push_back({all.lane(r), w.of(r), {fit, 1}, {op, w.size}, called, patience});
  return bodies;
}

// All sizes, twice each, on the same lanes.
template <collective What, class T, class Op>
void check_rings(Op op, int size, unsigned lanes, std::uint64_t seed, unsigned threads,
                 std::vector<std::size_t> const& counts) {
  ranks all({.ranks = size, .lanes = lanes, .slots = 2, .slot_bytes = 256});
  for (std::size_t count : counts)
    for (bool in_place : {false, true}) {
      CAPTURE(size);
      CAPTURE(count);
      CAPTURE(in_place);
      CAPTURE(threads);
      world<What, T> expected(size, count, in_place), got(size, count, in_place);
      by_the_host(expected, op);
      run(seed, threads, rings(all, got, op), lanes);
      for (int r = 0; r < size; ++r)
        for (unsigned i = 0; i < lanes; ++i) REQUIRE(all.lane(r, i)->failed.acquire() == 0);
      REQUIRE(got == expected);
    }
}

// Larger than what it must be aligned to, as complex numbers are: 16 bytes, at any 4.
struct quad {
  std::int32_t at[4];
};
struct sum_of_quads {
  using commutative_and_associative = std::true_type;
  RINGLET_HD quad operator()(quad a, quad const& b) const {
    for (int i = 0; i < 4; ++i) a.at[i] += b.at[i];
    return a;
  }
};
struct add_quads {
  quad *wire, *result;
  quad const *got, *own;
  std::size_t count;
  template <kernel_worker W>
  void operator()(W const& worker, unsigned, unsigned) const {
    combine(worker, wire, result, got, own, count, arithmetic<quad, sum_of_quads>({}, 2), false);
  }
};

}  // namespace

TEST_CASE("elements may lie wherever their type may, also where packs of their size could not") {
  constexpr std::size_t count = 11;
  for (std::size_t apart : {0, 1, 2, 3}) {
    std::vector<std::int32_t> memory[4];
    for (auto& m : memory) m.assign(4 * count + 4, 5);
    auto const at = [&](int i) { return reinterpret_cast<quad*>(memory[i].data() + apart); };
    run_on_threads(1, 2, add_quads{at(0), at(1), at(2), at(3), count});
    run_on_threads(1, 2, add_quads{at(2), nullptr, at(1), nullptr, count});
    for (int i : {0, 1, 2}) {
      CHECK(std::count(memory[i].begin(), memory[i].end(), 10) == 4 * count);
      CHECK(std::count(memory[i].begin(), memory[i].end(), 5) == 4);
    }
  }
}

TEST_CASE_TEMPLATE("rings of kernels give the bits of the host's engine", T, float, std::int64_t, bfloat16) {
  for (int size : {1, 2, 3, 4}) check_rings<collective::all_reduce, T>(sum{}, size, 2, 0, 2, {0, 1, 64, 1001});
  if (!fibres_too) return;
  std::uint64_t seed = 1;
  for (unsigned threads : {1u, 33u, 128u})
    for (int size : {2, 3}) check_rings<collective::all_reduce, T>(sum{}, size, 2, seed++, threads, {3, 512, 2001});
}

TEST_CASE("all collectives, and what only a last or a first contribution goes through") {
  std::uint64_t seed = fibres_too ? 7 : 0;
  unsigned const threads = fibres_too ? 33 : 2;
  for (int size : {2, 3}) {
    check_rings<collective::reduce_scatter, double>(average{}, size, 1, seed, threads, {1, 500});
    check_rings<collective::all_gather, std::int32_t>(keep{}, size, 3, seed, threads, {1, 500});
    check_rings<collective::all_reduce, float16>(scaled_sum{0.3F}, size, 2, seed, threads, {999});
  }
}

TEST_CASE("types that need a wider one to calculate in, and values that travel as another type") {
  std::uint64_t const seed = fibres_too ? 7 : 0;
  unsigned const threads = fibres_too ? 33 : 2;
  check_rings<collective::all_reduce, float8_e4m3>(accumulate_in<float>(sum{}), 3, 2, seed, threads, {999});
  check_rings<collective::all_reduce, float8_e5m2>(accumulate_in<float>(minimum{}), 3, 2, seed, threads, {999});
  check_rings<collective::all_reduce, float>(travel_as<bfloat16>(sum{}), 3, 2, seed, threads, {1024, 999});
  check_rings<collective::all_gather, float>(travel_as<bfloat16>(keep{}), 3, 2, seed, threads, {999});
}

TEST_CASE("a rank that does not come lets the others' kernels end, and their reports say so") {
  ranks all({.ranks = 3, .lanes = 1, .slots = 2, .slot_bytes = 256});
  world<collective::all_reduce, float> w(3, 100, false);
  auto bodies = rings(all, w, sum{}, second / 20);
  bodies.pop_back();
  run(0, 2, bodies, 1);
  int timed_out = 0;
  for (int r = 0; r < 2; ++r) {
    auto const said = kernel_report::verdict::unpack(all.lane(r)->report->said.acquire());
    CHECK(all.lane(r)->failed.acquire() != 0);
    CHECK(all.lane(r)->stop->is.acquire() != 0);
    if (said.why == kernel_fault::timed_out)
      ++timed_out;
    else
      CHECK(said.peer == 1 - r);
  }
  CHECK(timed_out >= 1);
  CHECK(all.lane(2)->stop->is.acquire() != 0);

  // Later ones end at once: nobody would answer.
  auto const begin = device_clock();
  bodies = rings(all, w, sum{}, 20 * second);
  run(0, 2, bodies, 1);
  CHECK(device_clock() - begin < 10 * second);
}

TEST_CASE("ranks that call different things find out") {
  ranks all({.ranks = 2, .lanes = 1, .slots = 2, .slot_bytes = 256});
  world<collective::all_reduce, float> w(2, 100, false);
  auto bodies = rings(all, w, sum{});
  bodies[1].called.count = 99;
  run(0, 2, bodies, 1);
  int differs = 0;
  for (int r = 0; r < 2; ++r) {
    kernel_report const& report = *all.lane(r)->report;
    auto const said = kernel_report::verdict::unpack(report.said.acquire());
    CHECK(said.why != kernel_fault::none);
    CHECK(said.why != kernel_fault::timed_out);
    if (said.why != kernel_fault::differs) continue;
    ++differs;
    CHECK(report.theirs.count == (r == 0 ? 99 : 100));
  }
  CHECK(differs >= 1);
}
