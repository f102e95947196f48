// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/simulated.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ringlet;

static_assert(ringlet::link<simulated::link, std::byte> && ringlet::link<simulated::link, double>);
static_assert(virtual_seconds(1) == std::chrono::seconds(1) && in_seconds(virtual_seconds(0.25)) == 0.25);
static_assert(virtual_seconds(-1e-12) == virtual_time(-1) && virtual_seconds(0.6e-12) == virtual_time(1));

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

TEST_CASE("settings that cannot work are refused, in words that say what to give") {
  auto const words = [](simulated::settings const& s) -> std::string {
    try {
      simulated world(s);
    } catch (error const& e) {
      return e.why() == errc::invalid_argument ? e.words() : "";
    }
    return "nothing";
  };
  CHECK(words({}) == "nothing");
  CHECK(words({.ranks = 0}) == "simulated: ranks is 0: give at least 1");
  CHECK(words({.lanes = 0}) == "simulated: lanes is 0: give at least 1");
  CHECK(words({.slots = 1}) == "simulated: slots is 1: give at least 2, or the ring locks");
  CHECK(words({.wires = {}}).find("there is no wire") != std::string::npos);
  CHECK(words({.ranks = 3, .over = {0}}).find("wires for 1 links, but there are 3") != std::string::npos);
  CHECK(words({.over = {0, 1}}).find("names wire 1, but there are 1") != std::string::npos);
  CHECK(words({.ranks = 4, .members = {{}, {}}}).find("describes 2 ranks") != std::string::npos);
  CHECK(words({.wires = {{.alpha = -1}}}).find("negative time") != std::string::npos);
  CHECK(words({.wires = {{.beta = std::numeric_limits<double>::quiet_NaN()}}}).find("negative") != std::string::npos);
  CHECK(words({.wires = {{.loss = 1}}}).find("0 to below 1") != std::string::npos);
  CHECK(words({.members = {{.gamma = -1}}}).find("negative time") != std::string::npos);
  CHECK(words({.timeout = 0}).find("timeout") != std::string::npos);
}
