// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/simulated.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace ringlet;

static_assert(ringlet::link<simulated::link, std::byte> && ringlet::link<simulated::link, double>);

TEST_CASE("a slice is on its way for as long as wire and byte say, and no longer there than it must be") {
  simulated world({.slots = 2, .slot_bytes = 8, .wires = {{.alpha = 1e-6, .beta = 1e-9}}});
  auto &from = world.lane(0), &to = world.lane(1);
  placement const whole{0, 8, true};
  int sent = 0, received = 0;
  world.run([&](int rank, std::size_t) {
    if (rank == 0)
      while (sent < 5) {
        auto const place = from.next().try_acquire<std::uint8_t>(whole);
        if (!place) return status::pending;
        CHECK(from.next().try_acquire<std::uint8_t>(whole).data == place.data);  // asking again gives the same
        for (std::size_t i = 0; i < 8; ++i) place.data[i] = static_cast<std::uint8_t>(sent);
        from.next().commit();
        ++sent;
      }
    if (rank == 1)
      while (received < 5) {
        auto const got = to.prev().try_peek<std::uint8_t>(whole);
        if (!got) return status::pending;
        CHECK(to.prev().try_peek<std::uint8_t>(whole).data == got.data);
        for (std::size_t i = 0; i < 8; ++i) CHECK(got.data[i] == received);
        // Two slots: the third slice leaves when the first one's credit is back.
        CHECK(to.clock() ==
              virtual_seconds(((received / 2) * 2 + 1) * 1e-6 + (received / 2 + 1 + received % 2) * 8e-9));
        to.prev().release();
        ++received;
      }
    return status::ready;
  });
  CHECK(world.why() == nullptr);
  CHECK(received == 5);
  CHECK(from.slices() == 5);
  CHECK(from.bytes() == 40);
}

TEST_CASE("what is added up costs the rank time, what is final does not") {
  for (bool final : {false, true}) {
    simulated world({.slots = 4, .members = {{.gamma = 1e-9, .overhead = 1e-8}}});
    placement const whole{0, 100, final};
    world.run([&](int rank, std::size_t) {
      auto& mine = world.lane(rank);
      if (rank == 0) {
        if (!mine.next().try_acquire<float>(whole)) return status::pending;
        mine.next().commit();
      } else {
        if (!mine.prev().try_peek<float>(whole)) return status::pending;
        mine.prev().release();
      }
      return status::ready;
    });
    CHECK(world.lane(0).clock() == virtual_seconds(1e-8));
    CHECK(world.lane(1).clock() == virtual_seconds(2e-8 + (final ? 0 : 400e-9)));
    CHECK(world.lane(1).waited() == virtual_seconds(1e-8));
  }
}

TEST_CASE("a shared wire serves whoever asks first, however far a link has run ahead") {
  // Ranks 0 and 1 share a wire that takes 10 ns a slice. Rank 0 has slices at 20, 40 and 60 ns, rank 1 at 25 ns.
  simulated world({.ranks = 3,
                   .slots = 4,
                   .wires = {{.beta = 1e-8}, {}},
                   .over = {0, 0, 1},
                   .members = {{.overhead = 20e-9}, {.overhead = 25e-9}, {}}});
  placement const byte{0, 1, true};
  int sent[3] = {3, 1, 0}, expected[3] = {0, 3, 1};
  std::vector<virtual_time> seen[3];
  world.run([&](int rank, std::size_t) {
    auto& mine = world.lane(rank);
    for (; sent[rank] > 0; --sent[rank]) {
      if (!mine.next().try_acquire<char>(byte)) return status::pending;
      mine.next().commit();
    }
    for (; expected[rank] > 0; --expected[rank]) {
      if (!mine.prev().try_peek<char>(byte)) return status::pending;
      seen[rank].push_back(mine.clock());
      mine.prev().release();
    }
    return status::ready;
  });
  CHECK(world.why() == nullptr);
  CHECK(seen[2] == std::vector<virtual_time>{virtual_seconds(40e-9)});  // it waited for rank 0's first
  // Rank 1 takes 25 ns over each slice, and was at 25 when the first arrived, at 30.
  CHECK(seen[1] == std::vector<virtual_time>{virtual_seconds(30e-9), virtual_seconds(55e-9), virtual_seconds(80e-9)});
}

TEST_CASE("a wire that has rested lets pass at once what it has saved, and no more") {
  // 1 us a byte, a bucket of 3 bytes that is empty at first. One byte at once, four after the wire has rested.
  simulated world({.slots = 8, .wires = {{.alpha = 1e-7, .beta = 1e-6, .burst = 3}}, .members = {{}, {}}});
  placement const byte{0, 1, true};
  int sent = 0;
  std::vector<virtual_time> seen;
  for (double rests : {0.0, 100e-6}) {
    world.lane(0).busy_until(virtual_seconds(rests));
    int const all = rests == 0 ? 1 : 5;
    world.run([&](int rank, std::size_t) {
      auto& mine = world.lane(rank);
      for (; rank == 0 && sent < all; ++sent) {
        if (!mine.next().try_acquire<char>(byte)) return status::pending;
        mine.next().commit();
      }
      while (rank == 1 && static_cast<int>(seen.size()) < all) {
        if (!mine.prev().try_peek<char>(byte)) return status::pending;
        seen.push_back(mine.clock());
        mine.prev().release();
      }
      return status::ready;
    });
  }
  std::vector<virtual_time> expected;
  for (double at : {1.1e-6, 100.1e-6, 100.1e-6, 100.1e-6, 101.1e-6}) expected.push_back(virtual_seconds(at));
  CHECK(seen == expected);
}

TEST_CASE("shared processors take on what is ready first, however far a link could run ahead") {
  // Rank 0 sends three slices and is at work for 20 ns over each, rank 1 comes at 15 ns with one of 5 ns: it is next.
  simulated world({.ranks = 3,
                   .slots = 4,
                   .members = {{.overhead = 20e-9}, {.overhead = 5e-9, .starts_at = 15e-9}, {}},
                   .processors = 1});
  placement const byte{0, 1, true};
  int sent[3] = {3, 1, 0};
  world.run([&](int rank, std::size_t) {
    auto& mine = world.lane(rank);
    for (; sent[rank] > 0; --sent[rank]) {
      if (!mine.next().try_acquire<char>(byte)) return status::pending;
      mine.next().commit();
    }
    return status::ready;
  });
  CHECK(world.why() == nullptr);
  CHECK(world.lane(1).clock() == virtual_seconds(25e-9));
  CHECK(world.lane(0).clock() == virtual_seconds(65e-9));
}
