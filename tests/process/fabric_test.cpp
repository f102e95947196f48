// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Ranks over a real provider of libfabric. What the others do is tried with a fake:
// tests/unit/transport/fabric_test.cpp.

#include "ringlet/transport/fabric.hpp"

#include <dirent.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../fabric/over.hpp"
#include "../ranks.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/point_to_point.hpp"
#include "ringlet/split.hpp"

using namespace tests;

namespace {
// Here, before there are ranks: each of them would spend a third of a second on it.
[[maybe_unused]] auto const& loaded = ringlet::fabric_library::open("libfabric.so.1");

using ringlet::fabric;
using net = over<"net">;
constexpr std::size_t count = 1'000'000;
}  // namespace

TEST_CASE("with memory that all have allocated, no final value is copied") {
  CHECK(on<net>(2, [](auto& comm) {
          auto const memory = comm.template allocate<float>(count);
          std::fill(memory.begin(), memory.end(), 1.0F);
          auto const before = comm.transport().statistics();
          ringlet::all_reduce(comm, memory);
          auto const after = comm.transport().statistics();
          expect(std::count(memory.begin(), memory.end(), 2.0F) == count, "the sum");
          expect(after.landed - before.landed == count / 2 * sizeof(float), "not all has landed");
          expect(after.final_in_slots == before.final_in_slots && after.staged == before.staged,
                 "something was copied");
          expect(after.from_place - before.from_place == count * sizeof(float), "sent straight from memory");
        }) == 0);
}

TEST_CASE_TEMPLATE("a message that nobody has asked for yet is in no collective's way", Ranks, net,
                   over<"tcp;ofi_rxm">) {
  ringlet::connect_options<typename Ranks::transport> options;
  options.timeout = 5s;
  CHECK(on<Ranks>(
            3,
            [](auto& comm) {
              std::vector<int> x(3'000, comm.rank()), y(x.size());
              for (int peer = 0; peer < 3; ++peer)
                if (peer != comm.rank()) ringlet::send(comm, x, peer);
              ringlet::barrier(comm);
              for (int peer = 0; peer < 3; ++peer) {
                if (peer == comm.rank()) continue;
                ringlet::recv(comm, y, peer);
                expect(y == std::vector<int>(y.size(), peer), "what it sent");
              }
            },
            options) == 0);
}

TEST_CASE("a rank may leave while its peers are behind, and they still get all") {
  CHECK(on<net>(3, [](auto& comm) {
          std::vector<int> x(3'000'000, 1);
          auto last = ringlet::async_all_reduce(comm, x);
          if (comm.rank() != 0) {
            for (int i = 0; i < 30; ++i) last.poll(), std::this_thread::sleep_for(10ms);
          }
          last.wait();
          expect(std::count(x.begin(), x.end(), 3) == 3'000'000, "the sum");
        }) == 0);
}

TEST_CASE("ranks that call different things find out") {
  CHECK(on<net>(3, [](auto& comm) {
          std::vector<int> x(comm.rank() == 1 ? 1000 : 2000);
          auto const e = error_of([&] { ringlet::all_reduce(comm, x); });
          expect(e, errc::mismatch, "all_reduce of 1000");
        }) == 0);
}

TEST_CASE("abort from another thread ends a wait on all ranks") {
  CHECK(on<net>(3, [](auto& comm) {
          std::vector<int> x(1000);
          std::thread other;
          if (comm.rank() == 2)
            other = std::thread([&] {
              std::this_thread::sleep_for(20ms);
              comm.abort("enough");
            });
          auto const e = error_of([&] {
            for (;;) ringlet::all_reduce(comm, x);
          });
          expect(e, errc::aborted, "rank 2: enough");
          if (other.joinable()) other.join();
        }) == 0);
}

TEST_CASE("a fork of a rank is no rank") {
  CHECK(launch(2, [](self who) {
          std::optional comm(ringlet::connect<fabric>(who, options_of<net>()));
          pid_t const child = ::fork();
          if (child == 0) {
            comm.reset();
            ::_exit(0);
          }
          ::waitpid(child, nullptr, 0);
          std::vector<int> x(100'000, 1);
          ringlet::all_reduce(*comm, x);
          expect(x[0] == 2, "the sum");
        }) == 0);
}

TEST_CASE("C77: many connections leave no more descriptors than few did") {
  auto const descriptors = [] {
    int n = 0;
    DIR* const d = ::opendir("/proc/self/fd");
    while (::readdir(d) != nullptr) ++n;
    ::closedir(d);
    return n;
  };
  CHECK(launch(2, [&](self who) {
          int before = 0;
          for (int i = 0; i < 20; ++i) {
            ringlet::prefixed store(who.store, std::to_string(i) + "/");
            auto comm = ringlet::connect<fabric>(ringlet::bootstrap{who.rank, who.size, store}, options_of<net>());
            auto const memory = comm.allocate<int>(1000);
            ringlet::all_reduce(comm, memory);
            auto const half = comm.split(who.rank);
            if (i == 2) before = descriptors();
          }
          expect(descriptors() < before, "descriptors");
        }) == 0);
}

TEST_CASE("libfabric's own shared memory works too, and leaves nothing behind when ranks end in peace") {
  auto const names = [] {
    std::set<std::string> all;
    DIR* const d = ::opendir("/dev/shm");
    while (dirent const* const entry = ::readdir(d)) all.insert(entry->d_name);
    ::closedir(d);
    return all;
  };
  auto const before = names();
  CHECK(on<over<"shm">>(3, [](auto& comm) {
          auto const memory = comm.template allocate<float>(count);
          for (int i = 0; i < 3; ++i) {
            std::fill(memory.begin(), memory.end(), 1.0F);
            ringlet::all_reduce(comm, memory);
            expect(std::count(memory.begin(), memory.end(), 3.0F) == count, "the sum");
          }
          expect(comm.transport().level() == 2, "the level");
        }) == 0);
  CHECK(names() == before);
}

TEST_CASE("a rank that ends while ranks connect keeps nobody waiting") {
  for (int after : {0, 5, 10, 20, 40}) {
    CAPTURE(after);
    auto const begin = std::chrono::steady_clock::now();
    CHECK(launch(3, [&](self who) {
            auto options = options_of<net>();
            options.connect_timeout = 500ms;
            if (who.rank == 1) {
              std::thread([&] {
                std::this_thread::sleep_for(std::chrono::milliseconds(after));
                ::_exit(0);
              }).detach();
            }
            auto const e = error_of([&] {
              auto comm = ringlet::connect<fabric>(who, options);
              std::vector<int> x(1000);
              for (;;) ringlet::all_reduce(comm, x);
            });
            expect(e.has_value(), "no error");
          }) == 0);
    CHECK(std::chrono::steady_clock::now() - begin < 8s);
  }
}
