// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "ringlet/cuda_kernels.hpp"
#include "ringlet/emulated_kernel.hpp"

// What tests of kernel bodies share: ranks that run in one launch, their buffers, and what the host's engine makes of
// them.

// One data race is enough: it would go on to report thousands.
extern "C" char const* __tsan_default_options() { return "halt_on_error=1"; }

namespace kernel_world {

using namespace ringlet;

constexpr std::uint64_t second = 1'000'000'000;

#if RINGLET_SANITIZED
constexpr bool fibres_too = false;  // sanitizers do not know what belongs to which
#else
constexpr bool fibres_too = true;
#endif

// Ranks that share one memory, whose blocks run in one launch.
class ranks {
 public:
  explicit ranks(device_layout const& layout) : layout_(layout) {
    for (int r = 0; r < layout.ranks; ++r) memory_.emplace_back(layout.bytes() / interference);
    for (auto& m : memory_) segments_.push_back(m.front().bytes);
    for (int r = 0; r < layout.ranks; ++r)
      for (unsigned i = 0; i < layout.lanes; ++i) *lane(r, i) = layout.view(r, i, segments_.data());
  }
  device_lane* lane(int rank, unsigned i = 0) const {
    return reinterpret_cast<device_lane*>(segments_[static_cast<unsigned>(rank)]) + i;
  }
  device_layout const& layout() const { return layout_; }

 private:
  struct line {
    alignas(interference) std::byte bytes[interference];
  };
  device_layout layout_;
  std::vector<std::vector<line>> memory_;
  std::vector<std::byte*> segments_;
};

// The buffers of all ranks of a collective. With one element between them, no two are aligned alike.
template <collective What, class T>
struct world {
  int size;
  std::size_t count;
  bool in_place;
  std::vector<T> memory[2];
  std::vector<std::size_t> at;

  world(int n, std::size_t elements, bool same, std::size_t apart = 1) : size(n), count(elements), in_place(same) {
    for (int r = 0; r < n; ++r)
      at.push_back(static_cast<std::size_t>(r) * (elements + apart) + static_cast<unsigned>(r) % 2 * apart);
    for (auto& m : memory) m.resize(static_cast<std::size_t>(n) * (elements + apart) + 1);
    std::uint32_t seed = 12345;
    for (T& x : memory[0]) {
      seed = seed * 1664525 + 1013904223;
      x = static_cast<T>(static_cast<float>(static_cast<int>(seed >> 16) - 32768) / 1024.0F);
    }
    if (same) memory[1] = memory[0];
  }
  buffers<T> of(int rank) {
    partition const chunks{count, static_cast<std::size_t>(size)};
    auto const r = static_cast<std::size_t>(rank);
    std::size_t const home = chunks.offset(r);
    T* const out = memory[1].data() + at[r];
    T const* const in = in_place ? out : memory[0].data() + at[r];
    return {in + (whole_input(What) ? 0 : home), out + (whole_output(What) ? 0 : home), chunks};
  }
  bool operator==(world const& other) const {
    return std::memcmp(memory[1].data(), other.memory[1].data(), memory[1].size() * sizeof(T)) == 0;
  }
};

// What the host's engine makes of it.
template <collective What, class T, class Op>
void by_the_host(world<What, T>& w, Op op) {
  ranks all({.ranks = w.size, .lanes = 1, .slots = 4, .slot_bytes = 512});
  using operation = ring_operation<ring_schedule<What>, arithmetic<T, Op>, detail::device_link>;
  std::vector<std::unique_ptr<detail::device_link>> links;
  std::vector<std::unique_ptr<operation>> operations;
  for (int r = 0; r < w.size; ++r) {
    links.push_back(std::make_unique<detail::device_link>(*all.lane(r)));
    operations.push_back(std::make_unique<operation>(ring_schedule<What>{r, w.size}, *links.back(), w.of(r),
                                                     pipelining{16, 2}, arithmetic<T, Op>(op, w.size)));
  }
  std::vector<bool> ready(operations.size());
  for (std::size_t left = operations.size(); left != 0;)
    for (std::size_t r = 0; r < operations.size(); ++r)
      if (!ready[r] && operations[r]->poll() == status::ready) ready[r] = true, --left;
}

template <class Body>
void run(std::uint64_t seed, unsigned threads, std::vector<Body> const& bodies, unsigned lanes) {
  auto const blocks = static_cast<unsigned>(bodies.size()) * lanes;
  if (seed != 0)
    run_on_fibres(blocks, threads, seed, all_ranks<Body>{bodies.data(), lanes});
  else
    run_on_threads(blocks, threads, all_ranks<Body>{bodies.data(), lanes});
}

}  // namespace kernel_world
