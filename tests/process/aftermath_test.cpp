// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What may be relied on once an operation has failed, or has been left alone for long.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <vector>

#include "../over_both.hpp"
#include "../ranks.hpp"
#include "ringlet/ringlet.hpp"

using namespace std::chrono_literals;
using namespace tests;

using ringlet::shared_memory;
using clock_type = std::chrono::steady_clock;

namespace {
template <class X>
ringlet::connect_options<X> within(std::chrono::milliseconds timeout) {
  ringlet::connect_options<X> options;
  options.timeout = timeout;
  return options;
}
}  // namespace

OVER_BOTH("nobody touches a rank's buffer any more when its wait has thrown") {
  for (int i = 0; i < 10; ++i)
    CHECK(on<Ranks>(3, [&](auto& comm) {
            auto buffer = comm.template allocate<char>(20'000'000);
            std::thread other;
            if (comm.rank() == 0)
              other = std::thread([&] {
                std::this_thread::sleep_for(std::chrono::microseconds(500 + i * 700));  // anywhere in an operation
                comm.abort("enough");
              });
            auto const e = error_of([&] {
              for (;;) ringlet::all_gather(comm, buffer);
            });
            expect(e, errc::aborted, "enough");
            std::memset(buffer.data(), 7, buffer.size());
            std::this_thread::sleep_for(10ms);  // time for a late write
            if (other.joinable()) other.join();
            expect(std::count(buffer.begin(), buffer.end(), 7) == 20'000'000, "a late write");
          }) == 0);
}

TEST_CASE("an operation that is polled now and then notices a peer's end, and its deadline") {
  for (bool killed : {true, false})
    CHECK(ringlet::launch(2, [&](auto who) {
            auto comm = ringlet::connect(who, within<shared_memory>(killed ? 60s : 300ms));
            std::vector<int> x(10);
            ringlet::barrier(comm);
            if (who.rank == 1) {
              if (killed) ::_exit(0);  // without a word
              while (comm.transport().told() == nullptr) std::this_thread::sleep_for(1ms);
              return;
            }
            auto const begin = clock_type::now();
            auto operation = ringlet::async_all_reduce(comm, x);
            while (operation.poll() == ringlet::status::pending) std::this_thread::sleep_for(20ms);
            auto const e = error_of([&] { operation.wait(); });
            expect(e, killed ? errc::peer_lost : errc::timed_out, "rank 1");
            expect(clock_type::now() - begin < 10s, "it took too long");
          }) == 0);
}

OVER_BOTH("time in which a rank does other things is not time that it waits") {
  CHECK(on<Ranks>(
            2,
            [](auto& comm) {
              std::vector<int> x(100'000, 1);
              auto operation = ringlet::async_all_reduce(comm, x);
              for (int i = 0; i < 5; ++i) operation.poll();
              std::this_thread::sleep_for(600ms);  // both
              operation.wait();
              expect(x[99'999] == 2, "the sum");
            },
            within<typename Ranks::transport>(300ms)) == 0);
}

OVER_BOTH("a failed operation knows why, also when its communicator is gone") {
  CHECK(on<Ranks>(1, [](auto& comm) {
          std::vector<int> x(10);
          auto moved = std::make_unique<std::remove_reference_t<decltype(comm)>>(std::move(comm));
          auto operation = ringlet::async_all_reduce(*moved, x);
          operation.cancel();
          moved.reset();
          expect(error_of([&] { operation.wait(); }), errc::aborted, "cancelled");
        }) == 0);
}

TEST_CASE("a fork of a rank is no rank") {
  CHECK(ringlet::launch(2, [](auto who) {
          std::optional comm(ringlet::connect<shared_memory>(who));
          pid_t const child = ::fork();
          if (child == 0) {
            comm.reset();
            ::_exit(0);
          }
          ::waitpid(child, nullptr, 0);
          std::vector<int> x(100'000, 1);
          for (int i = 0; i < 10; ++i) ringlet::barrier(*comm);
          ringlet::all_reduce(*comm, x);
          expect(x[0] == 2, "the sum");
        }) == 0);
}

OVER_BOTH("allocations that differ are refused, and cost nothing") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          for (int i = 0; i < 20; ++i)
            expect(error_of([&] { comm.template allocate<char>(comm.rank() == 0 ? 50'000'000 : 60'000'000); }),
                   errc::mismatch, "allocate is a collective");
          auto const memory = comm.template allocate<char>(1000);
          expect(std::count(memory.begin(), memory.end(), 0) == 1000, "zeros");
        }) == 0);
}

OVER_BOTH("a time without end is no time at all ago") {
  auto options = within<typename Ranks::transport>(std::chrono::milliseconds::max());
  options.connect_timeout = std::chrono::milliseconds::max();
  CHECK(on<Ranks>(
            2,
            [](auto& comm) {
              if (comm.rank() == 0) std::this_thread::sleep_for(300ms);
              ringlet::barrier(comm);
            },
            options) == 0);
}
