// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/device_segment.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

using namespace ringlet;

namespace {

struct line {
  alignas(interference) std::byte bytes[interference];
};

struct span {
  std::byte const* begin;
  std::size_t bytes;
};
span of(void const* p, std::size_t bytes) { return {static_cast<std::byte const*>(p), bytes}; }

}  // namespace

TEST_CASE("what a segment holds lies within it, aligned, and nothing overlaps") {
  for (int ranks : {1, 2, 3, 16, 17}) {
    device_layout const layout{
        .ranks = ranks, .lanes = 3, .slots = 2, .slot_bytes = 384, .line_count = 5, .stage_bytes = 256};
    REQUIRE(layout.bytes() % interference == 0);
    std::vector<std::vector<line>> memory;
    std::vector<std::byte*> segments;
    for (int r = 0; r < ranks; ++r)
      segments.push_back(memory.emplace_back(layout.bytes() / interference).front().bytes);

    std::vector<span> all;
    for (int r = 0; r < ranks; ++r) {
      all.push_back(of(segments[static_cast<unsigned>(r)], layout.lanes * sizeof(device_lane)));
      for (unsigned i = 0; i < layout.lanes; ++i) {
        device_lane const v = layout.view(r, i, segments.data());
        // Of each queue, what its receiver and what its sender holds; of the places, this rank's own.
        all.push_back(of(v.prev.filled, sizeof(lone_word)));
        all.push_back(of(v.prev.slots, slot_ring<>::bytes(layout.slots, layout.slot_bytes)));
        all.push_back(of(v.next.credit, sizeof(lone_word)));
        all.push_back(of(v.report, sizeof(kernel_report)));
        if (i == 0) all.push_back(of(v.stop, sizeof(lone_word)));
        auto const& place = v.places[r % most_device_peers];
        REQUIRE((ranks <= most_device_peers) == (place.boards != nullptr));
        if (place.boards == nullptr) continue;
        auto const n = static_cast<std::size_t>(ranks);
        all.push_back(of(place.boards, 2 * n * sizeof(device_board)));
        all.push_back(of(place.lines, 2 * n * layout.line_count * sizeof(flagged_line)));
        all.push_back(of(place.stage, 2 * layout.stage_bytes));
      }
    }
    std::sort(all.begin(), all.end(), [](span const& a, span const& b) { return a.begin < b.begin; });
    for (std::size_t i = 0; i + 1 < all.size(); ++i) REQUIRE(all[i].begin + all[i].bytes <= all[i + 1].begin);
    for (span const& s : all) {
      REQUIRE(reinterpret_cast<std::uintptr_t>(s.begin) % interference == 0);
      REQUIRE(std::any_of(segments.begin(), segments.end(), [&](std::byte* segment) {
        return s.begin >= segment && s.begin + s.bytes <= segment + layout.bytes();
      }));
    }
  }
}

TEST_CASE("both ends of a queue are views of the same one") {
  device_layout const layout{.ranks = 3, .lanes = 2};
  std::vector<std::vector<line>> memory;
  std::vector<std::byte*> segments;
  for (int r = 0; r < 3; ++r) segments.push_back(memory.emplace_back(layout.bytes() / interference).front().bytes);
  for (int r = 0; r < 3; ++r)
    for (unsigned i = 0; i < 2; ++i) {
      device_lane const mine = layout.view(r, i, segments.data()), next = layout.view((r + 1) % 3, i, segments.data());
      CHECK(mine.next.filled == next.prev.filled);
      CHECK(mine.next.credit == next.prev.credit);
      CHECK(mine.next.slots == next.prev.slots);
      CHECK(mine.next_stop == next.stop);
      CHECK(next.prev_stop == mine.stop);
      CHECK(mine.rank == r);
      CHECK(mine.size == 3);
    }
}

TEST_CASE("a rank need not reach more than its neighbours") {
  device_layout const layout{.ranks = 4};
  std::vector<std::vector<line>> memory;
  std::vector<std::byte*> segments;
  for (int r = 0; r < 4; ++r) segments.push_back(memory.emplace_back(layout.bytes() / interference).front().bytes);
  segments[2] = nullptr;
  device_lane const v = layout.view(0, 0, segments.data());
  CHECK(v.places[2].boards == nullptr);
  CHECK(v.places[3].boards != nullptr);
}

TEST_CASE("a verdict fits into a word that is never 0") {
  using verdict = kernel_report::verdict;
  for (auto why : {kernel_fault::timed_out, kernel_fault::stopped, kernel_fault::differs})
    for (int peer : {-1, 0, 7, 1000})
      for (int step : {0, 5, 100000}) {
        std::uint64_t const said = verdict{why, peer, step}.pack();
        CHECK(said != 0);
        CHECK(verdict::unpack(said).why == why);
        CHECK(verdict::unpack(said).peer == peer);
        CHECK(verdict::unpack(said).step == step);
      }
}

TEST_CASE("the latest call is read whole, and as the one with its number only") {
  latest_call latest{};
  call read, said;
  CHECK(!latest.is(0, read));
  CHECK(!latest.is(1, read));
  said.count = 7;
  said.element_name[22] = 'x';
  said.reduction_name[30] = 'y';
  latest.say(1, said);
  CHECK(latest.is(1, read));
  CHECK(read == said);
  CHECK(read.element_name[22] == 'x');
  CHECK(read.reduction_name[30] == 'y');
  CHECK(!latest.is(2, read));
  latest.say(2, said);
  CHECK(!latest.is(1, read));
}
