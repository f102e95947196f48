// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Shared memory inside hosts that are made up, a real provider of libfabric between them.

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../fabric/over.hpp"
#include "../ranks.hpp"
#include "ringlet/hierarchical.hpp"
#include "ringlet/transport/shared_memory.hpp"

using namespace tests;

namespace {

// Here, before there are ranks: each of them would spend a third of a second on it.
[[maybe_unused]] auto const& loaded = ringlet::fabric_library::open("libfabric.so.1");

// Rank r is on host r % hosts.
template <class F>
int on_hosts(int hosts, int places, F&& f) {
  auto const names = [&](auto& m, ringlet::time_point) {
    std::vector<std::string> all;
    for (int r = 0; r < m.size(); ++r) all.push_back(std::to_string(r % hosts));
    return all;
  };
  return launch(hosts * places, [&](self who) {
    auto all = ringlet::connect_hierarchical<ringlet::shared_memory, ringlet::fabric>(who, {},
                                                                                      options_of<over<"net">>(), names);
    f(all);
  });
}

// What processes count together.
class shared_count {
 public:
  shared_count()
      : at_(new (::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                std::atomic<int>(0)) {}
  shared_count(shared_count const&) = delete;
  ~shared_count() { ::munmap(at_, sizeof(std::atomic<int>)); }
  std::atomic<int>& operator*() { return *at_; }

 private:
  std::atomic<int>* at_;
};

}  // namespace

TEST_CASE("in memory that is registered, what comes from other hosts lands in place") {
  constexpr std::size_t count = 1'000'000;
  CHECK(on_hosts(2, 2, [](auto& all) {
          std::vector<float> x(count, 1.0F);
          ringlet::fabric::registered const whole(all.outer().transport(), x);
          ringlet::all_reduce(all, x);
          expect(std::count(x.begin(), x.end(), 4.0F) == count, "the sum");
          auto const& did = all.outer().transport().statistics();
          // Half of the buffer is this rank's between hosts, and of that half comes from the other host as it stays.
          expect(did.landed == count / 4 * sizeof(float), std::to_string(did.landed) + " bytes have landed");
          expect(did.from_place == count / 2 * sizeof(float), std::to_string(did.from_place) + " bytes were sent");
        }) == 0);
}

TEST_CASE("a rank killed at any moment is soon named by every survivor") {
  std::mt19937 random(std::random_device{}());
  auto const pick = [&](int from, int to) { return std::uniform_int_distribution(from, to)(random); };
  for (int kill = 0; kill < 12; ++kill) {
    int const hosts = pick(2, 3), places = pick(1, 2), victim = pick(0, hosts * places - 1), after = pick(0, 10'000);
    auto const count = static_cast<std::size_t>(pick(0, 1) == 0 ? 1000 : 1'000'000);
    CAPTURE(hosts);
    CAPTURE(places);
    CAPTURE(victim);
    CAPTURE(after);
    CAPTURE(count);
    shared_count connected, well;
    on_hosts(hosts, places, [&](auto& all) {
      ++*connected;
      while (*connected < all.size()) std::this_thread::yield();
      std::thread end;
      if (all.rank() == victim)
        end = std::thread([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(after));
          ::kill(::getpid(), SIGKILL);
        });
      auto const start = std::chrono::steady_clock::now();
      std::vector<float> x(count);
      auto const e = error_of([&] {
        for (;;) ringlet::all_reduce(all, x);
      });
      expect(e, errc::peer_lost, "has ended");
      expect(e->peer() == victim, std::string(e->what()) + ": it was said to be rank " + std::to_string(e->peer()));
      expect(std::chrono::steady_clock::now() - start < 5s, "that took long");
      ++*well;
    });
    CHECK(*well == hosts * places - 1);
  }
}
