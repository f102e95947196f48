// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For Thread Sanitizer: kernels whose ranks, blocks and members are all threads, with as few slots as there can be,
// launch after launch. Built by hand:
//   c++ -std=c++20 -O1 -pthread -fsanitize=thread tsan_kernel.cpp ../main.cpp -I ../../include
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "ringlet/cuda_kernels.hpp"
#include "ringlet/direct_kernel.hpp"
#include "ringlet/emulated_kernel.hpp"
#include "ringlet/line_kernel.hpp"

// One data race is enough: it would go on to report thousands.
extern "C" char const* __tsan_default_options() { return "halt_on_error=1"; }

namespace {

using namespace ringlet;

constexpr int size = 3;
constexpr unsigned lanes = 2, members = 2;
constexpr std::uint64_t patience = 10'000'000'000;
std::byte* everything[most_device_peers] = {};  // one window, which is the whole address space

struct line {
  alignas(interference) std::byte bytes[interference];
};

struct world {
  device_layout layout{
      .ranks = size, .lanes = lanes, .slots = 2, .slot_bytes = 128, .line_count = 64, .stage_bytes = 512};
  std::vector<line> memory[size];
  std::byte* segments[size];
  std::vector<std::int32_t> in[size], out[size];

  explicit world(std::size_t count) {
    for (int r = 0; r < size; ++r) {
      memory[r].resize(layout.bytes() / interference);
      segments[r] = memory[r].front().bytes;
      in[r].resize(count);
      out[r].resize(count);
    }
    for (int r = 0; r < size; ++r)
      for (unsigned i = 0; i < lanes; ++i) lane(r)[i] = layout.view(r, i, segments);
  }
  device_lane* lane(int r) const { return reinterpret_cast<device_lane*>(segments[r]); }
  buffers<std::int32_t> at(int r) { return {in[r].data(), out[r].data(), {in[r].size(), size}}; }
  shown_call shown(int r) const {
    auto const located = [](void const* p) { return position{1, reinterpret_cast<std::uintptr_t>(p)}; };
    return {{}, located(in[r].data()), located(out[r].data())};
  }
};

// So many launches of what `body_of(rank)` gives, each of which must add up. Ranks do not wait for each other between
// them.
template <class F>
void check_sums(world& w, std::int32_t launches, F body_of) {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> ranks;
  for (int r = 0; r < size; ++r)
    ranks.emplace_back([&, r] {
      for (std::int32_t turn = 0; turn < launches; ++turn) {
        for (std::size_t i = 0; i < w.in[r].size(); ++i) w.in[r][i] = static_cast<std::int32_t>(i) + turn * r;
        run_on_threads(lanes, members, body_of(r));
        for (std::size_t i = 0; i < w.in[r].size(); ++i)
          wrong += w.out[r][i] != static_cast<std::int32_t>(size * i) + turn * 3;
      }
    });
  for (auto& rank : ranks) rank.join();
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("rings") {
  world w(301);
  check_sums(w, 100, [&](int r) {
    return ring_kernel<collective::all_reduce, std::int32_t, sum>{w.lane(r),     w.at(r), {16, 1},
                                                                  {sum{}, size}, call{},  patience};
  });
}

TEST_CASE("in one shot, by the stages, and directly") {
  for (kernel_route route : {kernel_route::one_shot, kernel_route::staged, kernel_route::direct}) {
    world w(301);
    check_sums(w, 20, [&](int r) {
      return direct_kernel<collective::all_reduce, std::int32_t, sum>{w.lane(r),  w.at(r),    route,   {sum{}, size},
                                                                      w.shown(r), everything, patience};
    });
  }
}

TEST_CASE("lines") {
  world w(101);
  check_sums(w, 500, [&](int r) {
    return line_kernel<collective::all_reduce, std::int32_t, sum>{w.lane(r), w.at(r), {sum{}, size}, call{}, patience};
  });
}

TEST_CASE("what is gathered in place, by way of a narrower type") {
  world w(301);
  using op = decltype(travel_as<bfloat16>(keep{}));
  using body = direct_kernel<collective::all_gather, float, op>;
  std::vector<body> bodies;
  partition const chunks{300, size};
  for (int r = 0; r < size; ++r) {
    auto* const out = reinterpret_cast<float*>(w.out[r].data()) + r % 2;  // not aligned alike
    auto* const home = out + chunks.offset(static_cast<unsigned>(r));
    auto shown = w.shown(r);
    shown.output.offset += static_cast<unsigned>(r) % 2 * sizeof(float);
    bodies.push_back({w.lane(r), {home, out, chunks}, kernel_route::direct, {op{}, size}, shown, everything, patience});
  }
  run_on_threads(size * lanes, members, all_ranks<body>{bodies.data(), lanes});
  CHECK(w.lane(0)->failed.acquire() == 0);
}
