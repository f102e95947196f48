// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What of the engine shows only at the size of real buffers. All else: static/operation.cpp, static/prove.cpp.
#include "ringlet/operation.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "ringlet/reduction.hpp"

// A worker that touches no element, but notes whether it was to go past the caches. Its loops are found as those of
// kernels are.
namespace noting {
struct worker : ringlet::this_thread {
  int* far = nullptr;
  int* near = nullptr;
};
template <class T>
constexpr void copy(worker w, T*, T*, T const*, std::size_t, bool far) {
  ++*(far ? w.far : w.near);
}
template <class Arithmetic>
constexpr void fold(worker w, ringlet::detail::operands<Arithmetic> const&, std::size_t, Arithmetic const&, bool,
                    bool far, bool) {
  ++*(far ? w.far : w.near);
}
}  // namespace noting

namespace {
using namespace ringlet;

// A neighbour who takes everything, and always has something to give.
struct any_neighbour {
  float place[16] = {};
  template <class T>
  slice<T> try_acquire(placement where) {
    return {reinterpret_cast<T*>(place), where.count};
  }
  template <class T>
  slice<T> try_peek(placement where) {
    return try_acquire<T>(where);
  }
  void commit() {}
  void release() {}
  bool drained() const { return true; }
  any_neighbour& next() { return *this; }
  any_neighbour& prev() { return *this; }
  bool broken() const { return false; }
};

// How often an all-reduce over two ranks, one slice at a time, asked for one and for the other.
struct noted {
  int far = 0, near = 0;
};
noted all_reduce_of(std::size_t count) {
  std::vector<float> input(count), output(count);
  any_neighbour beside;
  noted n;
  using how = arithmetic<float, sum>;
  ring_operation<ring_schedule<collective::all_reduce>, how, any_neighbour, noting::worker> operation(
      {0, 2}, beside, {input.data(), output.data(), {count, 2}}, {count / 2, 1}, how({}, 2), nullptr,
      noting::worker{{}, &n.far, &n.near});
  CHECK(operation.poll() == status::ready);
  return n;
}

}  // namespace

TEST_CASE("results go past the caches where the whole buffer is larger than they are, and there alone") {
  std::size_t const large = larger_than_caches / sizeof(float);
  CHECK(all_reduce_of(large).near == 0);
  CHECK(all_reduce_of(large).far == 3);  // send, add, keep
  CHECK(all_reduce_of(large - 2).near == 3);
  CHECK(all_reduce_of(large - 2).far == 0);
}
