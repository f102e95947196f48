// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/bootstrap/memory_store.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "store_contract.hpp"

static_assert(ringlet::store<ringlet::memory_store>);

namespace {

template <class F>
pid_t fork_to(F&& f) {
  pid_t const child = ::fork();
  if (child != 0) return child;
  f();
  ::_exit(0);
}

int end_of(pid_t child) {
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace

TEST_CASE("memory_store keeps the contract of a store") {
  ringlet::memory_store store;
  check_store_contract([&](auto&& f) { f(store); });
}

TEST_CASE("forked processes share it, in both directions") {
  ringlet::memory_store store;
  pid_t const child = fork_to([&] {
    if (store.get("to child", in_ms(10'000)) != "question") ::_exit(1);
    store.set("to parent", "answer");
  });
  store.set("to child", "question");
  CHECK(store.get("to parent", in_ms(10'000)) == "answer");
  CHECK(end_of(child) == 0);
}

TEST_CASE("a process that is killed at any moment keeps no other from using it") {
  for (int delay_us : {0, 50, 100, 200, 400, 800, 1600, 3200}) {
    ringlet::memory_store store;
    pid_t const child = fork_to([&] {
      for (int i = 0;; ++i) store.set(std::to_string(i % 5000), std::string(100, 'c'));
    });
    ::usleep(static_cast<useconds_t>(delay_us));
    ::kill(child, SIGKILL);
    CHECK(WIFSIGNALED(end_of(child)));
    for (int i = 0; i < 5000; ++i) store.set(std::to_string(i), std::string(100, 'p'));
    int whole = 0;
    for (int i = 0; i < 5000; ++i) {
      std::string const value = store.get(std::to_string(i), ringlet::time_point{});
      whole += value == std::string(100, 'c') || value == std::string(100, 'p');
    }
    CHECK(whole == 5000);
  }
}

TEST_CASE("two that set one key at the same instant: one wins") {
  // Values so long that writing them takes longer than it takes both to begin.
  constexpr std::size_t rounds = 24, bytes = std::size_t{8} << 20;
  ringlet::memory_store store(2 * rounds * (bytes + 64));
  std::atomic<std::size_t> started = 0, winners = 0;
  auto const race = [&](char who) {
    std::string const value(bytes, who);
    for (std::size_t round = 0; round < rounds; ++round) {
      std::string const key = std::to_string(round);
      ++started;
      while (started < 2 * (round + 1)) std::this_thread::yield();
      winners += store.set(key, value);
    }
  };
  std::thread other(race, 'o');
  race('t');
  other.join();
  CHECK(winners == rounds);
}

TEST_CASE("a reader that sleeps is woken, and does not find out by itself") {
  constexpr int rounds = 50;
  ringlet::memory_store store;
  auto const start = std::chrono::steady_clock::now();
  std::thread echo([&] {
    for (int i = 0; i < rounds; ++i)
      store.set("pong" + std::to_string(i), store.get("ping" + std::to_string(i), in_ms(60'000)));
  });
  for (int i = 0; i < rounds; ++i) {
    store.set("ping" + std::to_string(i), "");
    store.get("pong" + std::to_string(i), in_ms(60'000));
  }
  echo.join();
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(2));
}

TEST_CASE("a full store says so, and what it holds stays") {
  ringlet::memory_store store(4096);
  CHECK(store.set("small", "value"));
  CHECK_THROWS_WITH_AS(store.set("large", std::string(8192, 'x')), doctest::Contains("'large'"), ringlet::error);
  CHECK_THROWS_WITH_AS(store.set("large", std::string(8192, 'x')), doctest::Contains("full"), ringlet::error);
  CHECK_FALSE(store.set("small", std::string(8192, 'x')));  // no room is needed to say that it is there
  CHECK(store.get("small", ringlet::time_point{}) == "value");
  CHECK(store.set("another small one", "value"));
}

TEST_CASE("more keys than lists") {
  ringlet::memory_store store;
  for (int i = 0; i < 20'000; ++i) REQUIRE(store.set(std::to_string(i), std::to_string(-i)));
  int right = 0;
  for (int i = 0; i < 20'000; ++i) right += store.get(std::to_string(i), ringlet::time_point{}) == std::to_string(-i);
  CHECK(right == 20'000);
}

TEST_CASE("a size that cannot be had is an error") {
  CHECK_THROWS_WITH_AS(ringlet::memory_store(std::size_t{1} << 40), doctest::Contains("32 GiB"), ringlet::error);
}
