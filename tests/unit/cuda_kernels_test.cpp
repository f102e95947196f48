// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/cuda_kernels.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ringlet/emulated_kernel.hpp"

namespace {

using namespace ringlet;

// The memory of ranks whose blocks run in one launch: what cuda_ipc has in their segments.
class ranks {
 public:
  ranks(int size, unsigned lanes, std::size_t slots, std::size_t slot_bytes)
      : size_(size), lanes_(lanes), slots_(slots), slot_bytes_(slot_bytes), all_(static_cast<unsigned>(size) * lanes) {
    for (auto& m : all_) m = std::make_unique<lane_memory>(slots, slot_bytes);
    for (int r = 0; r < size; ++r)
      for (unsigned i = 0; i < lanes; ++i) {
        device_lane lane{queue(r, i), queue((r + size - 1) % size, i), &stop, &at(r, i).report};
        views_.push_back(lane);
      }
  }
  device_lane* lanes(int rank) { return &views_[static_cast<unsigned>(rank) * lanes_]; }
  kernel_report const& report(int rank, unsigned lane) { return at(rank, lane).report; }
  int size() const { return size_; }
  unsigned lanes() const { return lanes_; }
  std::size_t slot_bytes() const { return slot_bytes_; }
  word stop{};

 private:
  struct line {
    alignas(interference) std::byte bytes[interference];
  };
  struct lane_memory {
    alignas(interference) word filled{};
    alignas(interference) word credit{};
    kernel_report report{};
    std::vector<line> slots;
    lane_memory(std::size_t count, std::size_t bytes) : slots(slot_ring<>::bytes(count, bytes) / interference) {}
  };
  lane_memory& at(int rank, unsigned lane) { return *all_[static_cast<unsigned>(rank) * lanes_ + lane]; }
  slot_ring<> queue(int from, unsigned lane) {
    lane_memory& to = at((from + 1) % size_, lane);
    return {&to.filled, &at(from, lane).credit, to.slots[0].bytes, slots_, slot_bytes_};
  }

  int size_;
  unsigned lanes_;
  std::size_t slots_, slot_bytes_;
  std::vector<std::unique_ptr<lane_memory>> all_;
  std::vector<device_lane> views_;
};

}  // namespace

TEST_CASE("a ring of kernels adds up, launch after launch") {
  for (unsigned threads : {1u, 33u, 128u}) {
    ranks all(3, 2, 2, 128);
    std::size_t const count = 1001;
    std::vector<float> in(3 * count), out(3 * count);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
    using kernel = ring_kernel<collective::all_reduce, float, sum>;
    std::vector<kernel> bodies;
    for (int r = 0; r < 3; ++r)
      bodies.push_back({all.lanes(r),
                        r,
                        3,
                        {&in[static_cast<unsigned>(r) * count], &out[static_cast<unsigned>(r) * count], {count, 3}},
                        {32, 1},
                        {sum{}, 3},
                        call{},
                        10'000'000'000});
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      out.assign(out.size(), -1);
      run_on_fibres(6, threads, seed, all_ranks<kernel>{bodies.data(), 2});
      for (std::size_t i = 0; i < out.size(); ++i) REQUIRE(out[i] == static_cast<float>(3 * (i % count + count)));
    }
  }
}
