// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/bootstrap/pmi.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "fake_hydra.hpp"
#include "store_contract.hpp"

namespace {

using ringlet::errc;

template <class F>
std::pair<errc, std::string> failure_of(F&& f) {
  try {
    f();
  } catch (ringlet::error const& e) {
    return {e.why(), e.what()};
  }
  return {};
}

bool contains(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

// A launcher that has said all it will ever say.
struct monologue {
  explicit monologue(std::string const& words) {
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()) == 0);
    REQUIRE(::send(pair[0], words.data(), words.size(), 0) == static_cast<ssize_t>(words.size()));
  }
  ~monologue() {
    hang_up();
    ::close(pair[1]);
  }
  void hang_up() {
    if (pair[0] >= 0) ::close(pair[0]);
    pair[0] = -1;
  }
  int fd() const { return pair[1]; }
  std::array<int, 2> pair{};
};

}  // namespace

TEST_CASE("what one rank puts, all get after the barrier") {
  constexpr int size = 3;
  fake_hydra launcher(size);
  std::array<std::string, size> got;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ringlet::pmi p(launcher.fd(rank), in_ms(10'000));
      if (rank == 0) p.put("address", "[fd00::1]:4321");
      p.barrier();
      got[static_cast<std::size_t>(rank)] = p.get("address") + ' ' + p.job();
      p.finalize();
    });
  }
  for (auto& thread : threads) thread.join();
  for (auto const& words : got) CHECK(words == "[fd00::1]:4321 kvs_1_0");
  CHECK(launcher.finalized() == size);
}

TEST_CASE("a key that nobody put is an error with the launcher's words") {
  fake_hydra launcher(1);
  ringlet::pmi p(launcher.fd(0), in_ms(10'000));
  auto const [why, words] = failure_of([&] { p.get("missing"); });
  CHECK(why == errc::bootstrap);
  CHECK(contains(words, "missing"));
  CHECK(contains(words, "key_not_found"));
}

TEST_CASE("C49 a rank that never comes to the barrier: an error at the deadline") {
  fake_hydra launcher(2);
  ringlet::pmi p(launcher.fd(0), in_ms(200));
  auto const start = std::chrono::steady_clock::now();
  CHECK(failure_of([&] { p.barrier(); }).first == errc::timed_out);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
}

TEST_CASE("launchers that speak something else, too much, or nothing") {
  SUBCASE("another protocol") {
    monologue launcher("cmd=fullinit-response;rc=0;\n");
    CHECK(failure_of([&] { ringlet::pmi(launcher.fd(), in_ms(1000)); }).first == errc::bootstrap);
  }
  SUBCASE("a refusal") {
    monologue launcher("cmd=response_to_init rc=1\n");
    auto const [why, words] = failure_of([&] { ringlet::pmi(launcher.fd(), in_ms(1000)); });
    CHECK(why == errc::bootstrap);
    CHECK(contains(words, "rc=1"));
  }
  SUBCASE("a line without end") {
    monologue launcher(std::string(10'000, 'x'));
    CHECK(failure_of([&] { ringlet::pmi(launcher.fd(), in_ms(1000)); }).first == errc::bootstrap);
  }
  SUBCASE("nothing") {
    monologue launcher("");
    CHECK(failure_of([&] { ringlet::pmi(launcher.fd(), in_ms(50)); }).first == errc::timed_out);
  }
  SUBCASE("it has gone") {
    monologue launcher("");
    launcher.hang_up();
    CHECK(failure_of([&] { ringlet::pmi(launcher.fd(), in_ms(1000)); }).first == errc::bootstrap);
  }
  SUBCASE("no socket") {
    CHECK(failure_of([&] { ringlet::pmi(-1, in_ms(1000)); }).first == errc::bootstrap);
  }
}
