// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "ringlet/store.hpp"

/// A time that is soon.
inline ringlet::time_point in_ms(int ms) { return std::chrono::steady_clock::now() + std::chrono::milliseconds(ms); }

/// Checks what every store promises.
/// @param with_client called as `with_client(f)`, by several threads at once: calls f(s) with a store object for this
/// thread; all of them see the same keys
template <class WithClient>
void check_store_contract(WithClient&& with_client) {
  SUBCASE("what is set can be got, by any rank, again and again") {
    with_client([](auto& s) { CHECK(s.set("key", "value")); });
    with_client([](auto& s) {
      CHECK(s.get("key", in_ms(1000)) == "value");
      CHECK(s.get("key", ringlet::time_point{}) == "value");
    });
  }
  SUBCASE("a key is set once, and the first value stays") {
    with_client([](auto& s) {
      CHECK(s.set("key", "first"));
      CHECK_FALSE(s.set("key", "second"));
      CHECK_FALSE(s.set("key", "first"));
      CHECK(s.get("key", in_ms(1000)) == "first");
    });
  }
  SUBCASE("keys and values are bytes: empty, with NULs, long") {
    with_client([](auto& s) {
      std::string const nuls("a\0b\0", 4), other("a\0c\0", 4), big(100'000, 'x');
      CHECK(s.set("", ""));
      CHECK(s.get("", in_ms(1000)) == "");
      CHECK(s.set(nuls, other));
      CHECK(s.set(other, nuls));
      CHECK(s.get(nuls, in_ms(1000)) == other);
      CHECK(s.get(other, in_ms(1000)) == nuls);
      CHECK(s.set("big", big));
      CHECK(s.get("big", in_ms(1000)) == big);
    });
  }
  SUBCASE("get waits until another rank sets the key") {
    std::string got;
    std::thread reader([&] { with_client([&](auto& s) { got = s.get("late", in_ms(10'000)); }); });
    with_client([](auto& s) {
      CHECK_THROWS_AS(s.get("never", in_ms(50)), ringlet::error);  // gives the reader time to begin to wait
      CHECK(s.set("late", "value"));
    });
    reader.join();
    CHECK(got == "value");
  }
  SUBCASE("get throws at the deadline, not before and not much later, and names the key") {
    with_client([](auto& s) {
      auto const start = std::chrono::steady_clock::now();
      try {
        s.get("missing", in_ms(100));
        FAIL("got a key that nobody set");
      } catch (ringlet::error const& e) {
        CHECK(e.why() == ringlet::errc::timed_out);
        CHECK(std::string(e.what()).find("'missing'") != std::string::npos);
      }
      auto const took = std::chrono::steady_clock::now() - start;
      CHECK(took >= std::chrono::milliseconds(100));
      CHECK(took < std::chrono::milliseconds(2000));
      CHECK(s.set("missing", "the store is still good"));
    });
  }
  SUBCASE("of ranks that set one key at once exactly one gets true, and all read its value") {
    constexpr int ranks = 4, keys = 50;
    std::atomic<int> winners = 0, readers = 0;
    std::vector<std::thread> threads;
    std::vector<std::string> won(keys);
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        with_client([&](auto& s) {
          for (int key = 0; key < keys; ++key) {
            if (!s.set("k" + std::to_string(key), std::to_string(rank))) continue;
            won[static_cast<std::size_t>(key)] = std::to_string(rank);
            ++winners;
          }
        });
      });
    }
    for (auto& thread : threads) thread.join();
    with_client([&](auto& s) {
      for (int key = 0; key < keys; ++key) {
        readers += s.get("k" + std::to_string(key), in_ms(1000)) == won[static_cast<std::size_t>(key)];
      }
    });
    CHECK(winners == keys);
    CHECK(readers == keys);
  }
}
