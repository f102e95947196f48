// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/bell.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

using ringlet::bell;
using clock_type = std::chrono::steady_clock;

TEST_CASE("nobody is woken while nobody sleeps") {
  bell b{};
  b.ring();
  CHECK(b.rung == 0);
}

TEST_CASE("rest lies down, then sleeps for no longer than a nap, then is up again") {
  bell b{};
  b.rest();
  CHECK(b.asleep == 1);
  auto const begin = clock_type::now();
  b.rest();
  CHECK(clock_type::now() - begin >= bell::nap / 2);
  CHECK(clock_type::now() - begin < std::chrono::seconds(1));
  CHECK(b.asleep == 0);
}

TEST_CASE("a bell that rings between lying down and sleeping is not missed") {
  // A hundred missed ones would take a hundred naps; of a hundred heard ones some may be slow on a busy machine.
  int slow = 0;
  for (int i = 0; i < 100; ++i) {
    bell b{};
    b.rest();
    b.ring();
    auto const begin = clock_type::now();
    b.rest();
    slow += clock_type::now() - begin >= bell::nap;
  }
  CHECK(slow < 50);
}

TEST_CASE("a sleeper is woken by another thread, by each ring once") {
  bell b{};
  std::atomic<bool> over = false;
  std::thread other([&] {
    while (!over) b.ring(), std::this_thread::yield();
  });
  auto const begin = clock_type::now();
  for (int i = 0; i < 2000; ++i) b.rest();
  auto const took = clock_type::now() - begin;
  over = true;
  other.join();
  CHECK(took < 1000 * bell::nap);  // so long if none had been heard
}
