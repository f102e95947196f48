// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Your own elements and operators, and how numbers are added up and travel.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "ringlet/ringlet.hpp"

// Any trivially copyable type can be an element. Here: the largest entry of something, and where it stands.
struct peak {
  float value;
  std::int32_t index;
};
// By this name errors and other ranks know it.
template <>
inline constexpr char const* ringlet::element_label<peak> = "peak";

// An operator combines two elements. A ring begins each chunk at another rank, so it must not matter in which order and
// grouping that happens: you declare that it does not, and only then does it compile. Of equal peaks take the first, or
// the order would show.
struct higher {
  static constexpr char const* name = "higher";
  using commutative_and_associative = std::true_type;
  peak operator()(peak a, peak b) const {
    if (a.value != b.value) return a.value > b.value ? a : b;
    return a.index < b.index ? a : b;
  }
};

int main() {
  return ringlet::launch(4, [](auto who) {
    auto comm = ringlet::connect<ringlet::shared_memory>(who);
    bool right = true;

    // Each rank has looked at another part of the model, in two layers.
    std::vector<peak> peaks{{1.0f + comm.rank(), 10 * comm.rank()}, {7.0f, 10 * comm.rank()}};
    ringlet::all_reduce(comm, peaks, higher{});
    right = right && peaks[0].value == 4 && peaks[0].index == 30 && peaks[1].index == 0;

    // A lambda does, too, once you have said that it may be applied in any order.
    std::vector<unsigned> numbers{12u * static_cast<unsigned>(1 + comm.rank()), 1u};
    ringlet::all_reduce(comm, numbers, ringlet::commutative([](unsigned a, unsigned b) { return a > b ? a : b; }));
    right = right && numbers[0] == 48 && numbers[1] == 1;

    // Half-precision elements are added up in float by themselves; 8-bit ones do not compile until you say in what.
    std::vector<ringlet::float8_e4m3> tiny(8, ringlet::float8_e4m3(0.5f));
    ringlet::all_reduce(comm, tiny, ringlet::accumulate_in<float>(ringlet::average{}));
    right = right && static_cast<float>(tiny[0]) == 0.5f;

    // Gradients in float may travel as bfloat16: half the bytes, 8 significant bits, and the same bits on all ranks.
    std::vector<float> gradient(1000, 0.1f);
    ringlet::all_reduce(comm, gradient, ringlet::travel_as<ringlet::bfloat16>(ringlet::sum{}));
    right = right && std::abs(gradient[0] - 0.4f) < 0.01f;

    if (comm.rank() == 0)
      std::printf("highest: %g at %d; tiny: %g; travelled as bfloat16: %g\n", peaks[0].value, peaks[0].index,
                  static_cast<float>(tiny[0]), gradient[0]);
    return right ? 0 : 1;
  });
}
