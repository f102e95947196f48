// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/kernel.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

// --- the concepts: what satisfies them, and for each requirement what lacks it ---

using ringlet::kernel_body;
using ringlet::kernel_worker;

static_assert(!kernel_worker<ringlet::this_thread>, "it cannot wait for others");

struct archetype : ringlet::this_thread {
  void pause(unsigned) const;
  void* common() const;
};
static_assert(kernel_worker<archetype>);
struct pauses_with_a_result : archetype {
  bool pause(unsigned) const;
};
struct has_nothing_in_common : archetype {
  void* common() const = delete;
};
static_assert(!kernel_worker<pauses_with_a_result> && !kernel_worker<has_nothing_in_common>);

struct body {
  unsigned* calls;
  template <kernel_worker W>
  void operator()(W const& worker, unsigned block, unsigned blocks) const {
    *calls += worker.size() + 10 * block + 100 * blocks;
  }
};
static_assert(kernel_body<body>);

struct changes_itself : body {
  template <kernel_worker W>
  void operator()(W const&, unsigned, unsigned);
};
struct not_trivial : body {
  not_trivial(not_trivial const&);
};
struct for_one_worker_only {
  void operator()(ringlet::this_block const&, unsigned, unsigned) const;
};
static_assert(!kernel_body<changes_itself> && !kernel_body<not_trivial> && !kernel_body<for_one_worker_only>);

TEST_CASE_TEMPLATE("on the host the workers of a device are one thread", W, ringlet::this_block, ringlet::this_warp) {
  W const worker;
  CHECK(worker.rank() == 0);
  CHECK(worker.size() == 1);
  worker.sync();
  worker.pause(1000);
  int calls = 0;
  CHECK(worker.leader([&] { return ++calls; }) == 1);
  CHECK(calls == 1);
  auto* const common = static_cast<unsigned char*>(worker.common());
  for (std::size_t i = 0; i < ringlet::common_bytes; ++i) common[i] = 1;
  CHECK(worker.common() == common);

  unsigned called = 0;
  body{&called}(worker, 2, 3);
  CHECK(called == 321);
}

TEST_CASE("time goes on, in nanoseconds") {
  std::uint64_t const begin = ringlet::device_clock();
  std::uint64_t now = begin;
  for (int i = 0; i < 1000; ++i) {
    std::uint64_t const later = ringlet::device_clock();
    REQUIRE(later >= now);
    now = later;
  }
  while (ringlet::device_clock() - begin < 1000) {
  }
  CHECK(ringlet::device_clock() - begin >= 1000);
}
