// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/simulated_settings.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

using namespace ringlet;

static_assert(virtual_seconds(1) == std::chrono::seconds(1) && in_seconds(virtual_seconds(0.25)) == 0.25);
static_assert(virtual_picoseconds(0.6) == virtual_time(1) && virtual_picoseconds(1.4) == virtual_time(1));

TEST_CASE("settings that cannot work are refused, in words that say what to give") {
  auto const words = [](simulated_settings const& s) -> std::string {
    try {
      s.check();
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
  CHECK(words({.wires = {{.alpha = -1}}}) == "simulated: alpha is -1 seconds: give 0 to 1e+06");
  CHECK(words({.wires = {{.beta = std::numeric_limits<double>::quiet_NaN()}}}).find("beta is nan") !=
        std::string::npos);
  CHECK(words({.wires = {{.loss = 1}}}).find("0 to below 1") != std::string::npos);
  CHECK(words({.wires = {{.burst = -1}}}).find("burst is -1") != std::string::npos);
  CHECK(words({.members = {{.gamma = 2}}}) == "simulated: gamma is 2 seconds: give 0 to 1");
  CHECK(words({.members = {{.dies_at = -1}}}).find("dies_at is -1 seconds") != std::string::npos);
  CHECK(words({.timeout = 1e7}).find("timeout is 1e+07 seconds") != std::string::npos);
}
