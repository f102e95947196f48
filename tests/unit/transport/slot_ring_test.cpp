// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/slot_ring.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "ringlet/link.hpp"

namespace {

using ringlet::placement;
using ringlet::slot_ring;
using ringlet::word;

static_assert(ringlet::outbound<slot_ring<>::sender, int> && ringlet::inbound<slot_ring<>::receiver, int>);

// A queue and both of its ends.
struct queue {
  static constexpr std::size_t slot_bytes = 128;
  struct alignas(128) memory {
    std::byte bytes[4 * (slot_ring<>::header + slot_bytes)];
  };
  explicit queue(std::size_t slots) : ring{&filled, &credit, storage.bytes, slots, slot_bytes}, in(ring), out(ring) {}
  word filled{}, credit{};
  memory storage{};
  slot_ring<> ring;
  slot_ring<>::sender in;
  slot_ring<>::receiver out;
};

placement few(std::size_t n) { return {0, n, false}; }

}  // namespace

TEST_CASE("slices come out in the order in which they went in, around and around") {
  queue q(3);
  for (int i = 0; i < 20; ++i) {
    *q.in.try_acquire<int>(few(1)).data = i;
    q.in.commit();
    CHECK(*q.out.try_peek<int>(few(1)).data == i);
    q.out.release();
  }
}

TEST_CASE("nothing can be peeked at before it is committed") {
  queue q(2);
  CHECK_FALSE(q.out.try_peek<int>(few(1)));
  q.in.try_acquire<int>(few(1));
  CHECK_FALSE(q.out.try_peek<int>(few(1)));
  q.in.commit();
  CHECK(q.out.try_peek<int>(few(1)));
}

TEST_CASE("as many slices as slots can be under way, no more, until one is released") {
  queue q(3);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(q.in.try_acquire<int>(few(1)));
    q.in.commit();
  }
  CHECK_FALSE(q.in.try_acquire<int>(few(1)));
  q.out.try_peek<int>(few(1));
  CHECK_FALSE(q.in.try_acquire<int>(few(1)));
  q.out.release();
  CHECK(q.in.try_acquire<int>(few(1)));
}

TEST_CASE("ends go on where earlier ones have stopped") {
  queue q(3);
  for (int launch = 0; launch < 10; ++launch) {  // each a number of slices that is no multiple of the slots
    slot_ring<>::sender in(q.ring, static_cast<std::uint64_t>(2 * launch));
    slot_ring<>::receiver out(q.ring, static_cast<std::uint64_t>(2 * launch));
    CHECK_FALSE(out.try_peek<int>(few(1)));
    for (int i = 0; i < 2; ++i) {
      *in.try_acquire<int>(few(1)).data = 2 * launch + i;
      in.commit();
    }
    for (int i = 0; i < 2; ++i) {
      REQUIRE(*out.try_peek<int>(few(1)).data == 2 * launch + i);
      out.release();
    }
    CHECK(in.count() == static_cast<std::uint64_t>(2 * launch + 2));
    CHECK(out.count() == in.count());
  }
  // What is under way counts against those who go on.
  slot_ring<>::sender in(q.ring, 20);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(in.try_acquire<int>(few(1)));
    in.commit();
  }
  CHECK_FALSE(slot_ring<>::sender(q.ring, in.count()).try_acquire<int>(few(1)));
}

TEST_CASE("asking again gives the same place") {
  queue q(2);
  auto const place = q.in.try_acquire<int>(few(1)).data;
  CHECK(q.in.try_acquire<int>(few(1)).data == place);
  q.in.commit();
  auto const slice = q.out.try_peek<int>(few(1)).data;
  CHECK(slice == place);
  CHECK(q.out.try_peek<int>(few(1)).data == slice);
}

TEST_CASE("an empty slice is a slice, and takes a slot") {
  queue q(2);
  auto const slice = q.in.try_acquire<int>(few(0));
  CHECK(slice);
  CHECK(slice.count == 0);
  q.in.commit();
  CHECK(q.out.try_peek<int>(few(0)));
}

TEST_CASE("what was announced comes with its slice") {
  queue q(2);
  ringlet::call c;
  for (std::uint64_t i = 1; i < 6; ++i) {
    c.sequence = i;
    *q.in.try_acquire<std::uint64_t>(few(1)).data = 100 + i;
    q.in.announce(c);
    q.in.commit();
    CHECK(*q.out.try_peek<std::uint64_t>(few(1)).data == 100 + i);
    CHECK(q.out.announced() == c);
    q.out.release();
  }
}

TEST_CASE("a slice fills its slot and touches no other") {
  queue q(2);
  for (unsigned char i = 1; i <= 2; ++i) {
    auto const slice = q.in.try_acquire<unsigned char>(few(queue::slot_bytes));
    for (std::size_t k = 0; k < slice.count; ++k) slice.data[k] = i;
    q.in.commit();
  }
  for (unsigned char i = 1; i <= 2; ++i) {
    auto const slice = q.out.try_peek<unsigned char>(few(queue::slot_bytes));
    bool all = true;
    for (std::size_t k = 0; k < slice.count; ++k) all = all && slice.data[k] == i;
    CHECK(all);
    q.out.release();
  }
}

TEST_CASE("slots are aligned for any element") {
  queue q(2);
  CHECK(reinterpret_cast<std::uintptr_t>(q.in.try_acquire<long double>(few(1)).data) % ringlet::interference == 0);
}

TEST_CASE("two threads, two slots: no slice is lost, doubled, torn or early") {
  queue q(2);
  constexpr std::uint64_t many = 20'000;
  std::thread sender([&] {
    for (std::uint64_t i = 0; i < many; ++i) {
      ringlet::slice<std::uint64_t> slice;
      while (!(slice = q.in.try_acquire<std::uint64_t>(few(16)))) std::this_thread::yield();
      for (std::size_t k = 0; k < 16; ++k) slice.data[k] = 16 * i + k;
      q.in.commit();
    }
  });
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < many; ++i) {
    ringlet::slice<std::uint64_t> slice;
    while (!(slice = q.out.try_peek<std::uint64_t>(few(16)))) std::this_thread::yield();
    for (std::size_t k = 0; k < 16; ++k) wrong += slice.data[k] != 16 * i + k, slice.data[k] = 0;
    q.out.release();
  }
  sender.join();
  CHECK(wrong == 0);
}
