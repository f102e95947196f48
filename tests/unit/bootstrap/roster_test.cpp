// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/bootstrap/roster.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "ringlet/bootstrap/memory_store.hpp"
#include "store_contract.hpp"

namespace {

using ringlet::errc;

struct participant {
  int rank, size;
  std::string settings = "slots=8";
};

struct outcome {
  std::uint64_t token = 0;
  errc why{};
  int peer = -2;
  std::string words;
  bool says(std::string const& part) const { return words.find(part) != std::string::npos; }
};

outcome meet(ringlet::memory_store& store, participant const& p, ringlet::time_point deadline) {
  outcome o;
  try {
    o.token = ringlet::agree(ringlet::bootstrap{p.rank, p.size, store}, p.settings, deadline);
  } catch (ringlet::error const& e) {
    o.why = e.why();
    o.peer = e.peer();
    o.words = e.what();
  }
  return o;
}

// All of them at once, as threads.
std::vector<outcome> meet(std::vector<participant> const& all, int ms) {
  ringlet::memory_store store;
  std::vector<outcome> outcomes(all.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < all.size(); ++i) {
    threads.emplace_back([&, i] { outcomes[i] = meet(store, all[i], in_ms(ms)); });
  }
  for (auto& thread : threads) thread.join();
  return outcomes;
}

std::vector<participant> all_of(int size) {
  std::vector<participant> all;
  for (int rank = 0; rank < size; ++rank) all.push_back({rank, size});
  return all;
}

}  // namespace

TEST_CASE("ranks that are alike agree and share a token") {
  for (int size : {1, 2, 5, 128}) {
    CAPTURE(size);
    auto const outcomes = meet(all_of(size), 30'000);
    for (auto const& o : outcomes) {
      CHECK(o.words == "");
      CHECK(o.token == outcomes[0].token);
    }
  }
}

TEST_CASE("each meeting has its own token") { CHECK(meet(all_of(1), 1000)[0].token != meet(all_of(1), 1000)[0].token); }

TEST_CASE("C75 missing ranks are named on every rank at the deadline") {
  auto all = all_of(8);
  all.erase(all.begin() + 6);
  all.erase(all.begin() + 3, all.begin() + 5);
  auto const start = std::chrono::steady_clock::now();
  auto const outcomes = meet(all, 200);
  auto const took = std::chrono::steady_clock::now() - start;
  CHECK(took >= std::chrono::milliseconds(200));
  CHECK(took < std::chrono::milliseconds(1500));
  for (auto const& o : outcomes) {
    CHECK(o.why == errc::bootstrap);
    CHECK(o.says("ranks 3, 4, 6 of 8 did not come"));
    CHECK(o.peer == -1);
    CHECK(o.says("see what became of them, and"));
    CHECK(o.words == outcomes[0].words);
  }
}

TEST_CASE("C75 a rank that alone is missing is told as a number, too") {
  for (auto const& o : meet({{0, 3}, {1, 3}}, 50)) {
    CHECK(o.says("rank 2 of 3 did not come"));
    CHECK(o.peer == 2);
  }
}

TEST_CASE("C75 a missing rank 0 is named by the others, with what they know") {
  auto const outcomes = meet({{1, 4}, {2, 4}}, 50);
  for (auto const& o : outcomes) {
    CHECK(o.why == errc::bootstrap);
    CHECK(o.says("rank 0 gave no verdict"));
    CHECK(o.says("ranks 0, 3 of 4 did not come"));
  }
}

TEST_CASE("C75 the second claimant of a rank learns so at once, and alone") {
  ringlet::memory_store store;
  std::vector<outcome> outcomes(3);
  std::vector<std::thread> threads;
  for (int rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      outcomes[static_cast<std::size_t>(rank)] = meet(store, {rank, 3}, in_ms(10'000));
    });
  }
  store.get("hello/1", in_ms(10'000));
  auto const start = std::chrono::steady_clock::now();
  auto const second = meet(store, {1, 3}, in_ms(10'000));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
  CHECK(second.why == errc::bootstrap);
  CHECK(second.says("rank 1 is taken"));
  CHECK(second.says("process "));
  outcomes[2] = meet(store, {2, 3}, in_ms(10'000));
  for (auto& thread : threads) thread.join();
  for (auto const& o : outcomes) CHECK(o.words == "");
}

TEST_CASE("C75 a rank that is claimed twice while another is missing is named on every rank") {
  ringlet::memory_store store;
  outcome zero, one;
  std::thread first([&] { zero = meet(store, {0, 3}, in_ms(300)); });
  std::thread second([&] { one = meet(store, {1, 3}, in_ms(300)); });
  store.get("hello/1", in_ms(10'000));
  CHECK(meet(store, {1, 3}, in_ms(10'000)).says("rank 1 is taken"));
  first.join();
  second.join();
  CHECK(zero.says("rank 2 of 3 did not come"));
  CHECK(zero.says("see what became of it, and"));
  CHECK(zero.says("rank 1 was claimed more than once"));
  CHECK(zero.peer == -1);
  CHECK(one.words == zero.words);
}

TEST_CASE("C75 ranks that disagree about the size are named with what they said, before the deadline") {
  auto const start = std::chrono::steady_clock::now();
  auto const outcomes = meet({{0, 4}, {1, 4}, {2, 3}, {3, 4}}, 60'000);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
  for (auto const& o : outcomes) {
    CHECK(o.why == errc::mismatch);
    CHECK(o.says("ranks disagree about the size"));
    CHECK(o.says("rank 2 says '3'"));
    CHECK(o.says("ranks 0, 1, 3 say '4'"));
    CHECK(o.words == outcomes[0].words);
  }
}

TEST_CASE("C75 ranks beyond the size of rank 0 are refused, and the others named where they disagree") {
  auto const outcomes = meet({{0, 2}, {1, 4}, {2, 4}, {3, 4}}, 60'000);
  for (auto const& o : outcomes) {
    CHECK(o.why == errc::mismatch);
    CHECK(o.says("rank 0 says '2'"));
    CHECK(o.says("rank 1 says '4'"));
  }
  auto const extra = meet({{0, 2}, {1, 2}, {2, 4}}, 60'000);
  CHECK(extra[0].words == "");
  CHECK(extra[1].words == "");
  CHECK(extra[2].why == errc::mismatch);
  CHECK(extra[2].says("rank 2 was not expected"));
}

TEST_CASE("a disagreement does not hide who is missing, nor wait for it until the deadline") {
  auto const start = std::chrono::steady_clock::now();
  auto const outcomes = meet({{0, 3}, {1, 3, "slots=4"}}, 60'000);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
  for (auto const& o : outcomes) {
    CHECK(o.why == errc::mismatch);
    CHECK(o.says("rank 2 of 3 did not come"));
    CHECK(o.says("the settings: rank 0 says 'slots=8'; rank 1 says 'slots=4'"));
  }
}

TEST_CASE("settings may hold line breaks and anything else") {
  std::string const odd("a\nb\0c'", 6);
  for (auto const& o : meet({{0, 2, odd}, {1, 2, odd}}, 10'000)) CHECK(o.words == "");
  for (auto const& o : meet({{0, 2, odd}, {1, 2, "a\nc"}}, 10'000)) CHECK(o.why == errc::mismatch);
}

TEST_CASE("a rank of another wire version is named") {
  ringlet::memory_store store;
  store.set("hello/1", "999\n2\nprocess 1 on elsewhere\nslots=8");
  auto const o = meet(store, {0, 2}, in_ms(10'000));
  CHECK(o.why == errc::mismatch);
  CHECK(o.says("wire version"));
  CHECK(o.says("rank 1 says '999'"));
}

TEST_CASE("hellos and verdicts that make no sense are errors, not crashes") {
  for (std::string text : {"", "\n", "\n\n\n", "1", "1\n2", "1\n2\nwho"}) {
    ringlet::memory_store store;
    store.set("hello/1", text);
    CHECK(meet(store, {0, 2}, in_ms(10'000)).why == errc::mismatch);
  }
  ringlet::memory_store store;
  store.set("verdict", "");
  CHECK(meet(store, {0, 1}, in_ms(10'000)).why == errc::bootstrap);
}

TEST_CASE("rank and size that make no sense are refused") {
  ringlet::memory_store store;
  for (participant p : {participant{-1, 2}, {2, 2}, {0, 0}, {0, -1}}) {
    CHECK(meet(store, p, in_ms(10'000)).why == errc::invalid_argument);
  }
}

TEST_CASE("exchange gives every rank all values, in order, whatever bytes they are") {
  constexpr int size = 5;
  std::vector<std::string> const mine{"", std::string("\0:\n", 3), "12:34", std::string(50'000, 'z'), "last"};
  ringlet::memory_store store;
  std::vector<std::vector<std::string>> got(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      auto const i = static_cast<std::size_t>(rank);
      got[i] = ringlet::exchange(ringlet::bootstrap{rank, size, store}, "addresses", mine[i], in_ms(10'000));
    });
  }
  for (auto& thread : threads) thread.join();
  for (auto const& values : got) CHECK(values == mine);
}

TEST_CASE("exchange of empty values only") {
  ringlet::memory_store store;
  CHECK(ringlet::exchange(ringlet::bootstrap{0, 1, store}, "nothing", "", in_ms(1000)) == std::vector<std::string>{""});
}

TEST_CASE("C50 a rank that dies before it gives its value is named by all others") {
  ringlet::memory_store store;
  std::vector<std::string> words(3);
  std::vector<int> peers(3);
  std::vector<std::thread> threads;
  for (int rank : {0, 2}) {
    threads.emplace_back([&, rank] {
      try {
        ringlet::exchange(ringlet::bootstrap{rank, 3, store}, "addresses", "here", in_ms(100));
      } catch (ringlet::error const& e) {
        words[static_cast<std::size_t>(rank)] = e.what();
        peers[static_cast<std::size_t>(rank)] = e.peer();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(peers == std::vector{1, 0, 1});
  CHECK(words[0].find("rank 1 gave no value for 'addresses'") != std::string::npos);
  CHECK(words[2] == words[0]);
}

TEST_CASE("C49 when rank 0 dies before it hands out the values, the others say so in bounded time") {
  ringlet::memory_store store;
  CHECK_THROWS_WITH_AS(ringlet::exchange(ringlet::bootstrap{1, 2, store}, "addresses", "here", in_ms(10)),
                       doctest::Contains("rank 0 did not hand out the values of 'addresses'"), ringlet::error);
}

TEST_CASE("a list of values that makes no sense, or is of other ranks, is an error, not a crash") {
  for (std::string list : {"", "+5:abc", "+5", "+:", "+x", "+99999999999999999999:a", "+1:a1:b1:c", "+1;a1;b"}) {
    ringlet::memory_store store;
    store.set("exchange/x/all", list);
    CHECK_THROWS_AS(ringlet::exchange(ringlet::bootstrap{1, 2, store}, "x", "", in_ms(10'000)), ringlet::error);
  }
}

TEST_CASE("a name serves one exchange") {
  ringlet::memory_store store;
  ringlet::bootstrap const alone{0, 1, store};
  ringlet::exchange(alone, "once", "", in_ms(1000));
  CHECK_THROWS_WITH_AS(ringlet::exchange(alone, "once", "", in_ms(1000)), doctest::Contains("one exchange"),
                       ringlet::error);
}

TEST_CASE("two meetings in one store, kept apart by prefixes") {
  ringlet::memory_store store;
  ringlet::prefixed first(store, "1/"), second(store, "2/");
  auto const a = ringlet::agree(ringlet::bootstrap{0, 1, first}, "x", in_ms(1000));
  auto const b = ringlet::agree(ringlet::bootstrap{0, 1, second}, "y", in_ms(1000));
  CHECK(a != b);
}

TEST_CASE("lists of ranks are short") {
  using ringlet::detail::named;
  CHECK(named({3}) == "rank 3");
  CHECK(named({3, 4}) == "ranks 3, 4");
  CHECK(named({0, 1, 2, 5, 7, 8}) == "ranks 0-2, 5, 7, 8");
}
