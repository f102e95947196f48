// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/communicator.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../over_both.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/barrier.hpp"

using namespace tests;

namespace {

template <class Ranks>
ringlet::connect_options<typename Ranks::transport> patient_for(std::chrono::milliseconds timeout) {
  ringlet::connect_options<typename Ranks::transport> options;
  options.timeout = timeout;
  return options;
}

}  // namespace

OVER_BOTH("a communicator knows its rank, its size and how buffers are cut") {
  CHECK(launch(3,
               [](self who) {
                 auto const comm = ringlet::connect<typename Ranks::transport>(who);
                 expect(comm.rank() == who.rank && comm.size() == 3, "rank or size");
                 expect(comm.chunks(10).offset(1) == 4 && comm.chunks(10).length(2) == 3, "chunks");
               },
               {.as = Ranks::as}) == 0);
}

OVER_BOTH("a size that is known while compiling must be the real one") {
  CHECK(launch(2,
               [](self who) {
                 using X = typename Ranks::transport;
                 expect(error_of([&] { ringlet::connect<X, 3>(who); }), errc::invalid_argument,
                        "compiled for 3 ranks, but there are 2");
                 auto comm = ringlet::connect<X, 2>(who);
                 static_assert(std::is_same_v<decltype(comm), ringlet::communicator<X, 2>>);
                 std::vector<int> x{1 + who.rank};
                 ringlet::all_reduce(comm, x);
                 expect(x[0] == 3, "the sum");
               },
               {.as = Ranks::as}) == 0);
}

OVER_BOTH("a negative time to wait is refused before anyone is waited for") {
  using options = ringlet::connect_options<typename Ranks::transport>;
  for (auto const& [name, which] :
       {std::pair("connect_timeout is -5 ms, expected 0 or more", &options::connect_timeout),
        std::pair("::timeout is -5 ms, expected 0 or more", &options::timeout)}) {
    options given;
    given.*which = std::chrono::milliseconds(-5);
    ringlet::memory_store store;
    auto const e = error_of([&] { ringlet::connect(ringlet::bootstrap<ringlet::memory_store>{0, 2, store}, given); });
    expect(e, errc::invalid_argument, name);
    ringlet::detail::agreed_meeting<ringlet::memory_store> alone(
        {0, 1, store}, "", ringlet::detail::deadline_after(std::chrono::hours(1)));
    using one = ringlet::communicator<typename Ranks::transport>;
    expect(error_of([&] { one(alone, given); }), errc::invalid_argument, name);
  }
}

OVER_BOTH("C47: ranks with other settings refuse each other when they connect") {
  CHECK(launch(2,
               [](self who) {
                 auto options = with_slots<typename Ranks::transport>(who.rank == 0 ? 2 : 3, 256);
                 auto const e = error_of([&] { ringlet::connect(who, options); });
                 expect(e, errc::mismatch, "slots=2");
                 expect(e, errc::mismatch, "slots=3");
               },
               {.as = Ranks::as}) == 0);
}

OVER_BOTH("settings that cannot work are refused in words") {
  CHECK(launch(1,
               [](self who) {
                 auto options = with_slots<typename Ranks::transport>(1, 256);
                 expect(error_of([&] { ringlet::connect(who, options); }), errc::invalid_argument,
                        "slots is 1, expected 2 to 4096");
               },
               {.as = Ranks::as}) == 0);
}

OVER_BOTH("C52: a communicator that was moved from says so; the other goes on, operations under way included") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          std::vector<int> x{1}, y{2};
          auto running = ringlet::async_all_reduce(comm, x);
          auto moved = std::move(comm);
          running.wait();
          ringlet::all_reduce(moved, y);
          expect(x[0] == 2 && y[0] == 4, "the sums");
          expect(error_of([&] { comm.rank(); }), errc::not_connected, "moved from");
          expect(error_of([&] { ringlet::all_reduce(comm, x); }), errc::not_connected, "moved from");
          expect(error_of([&] { comm.abort(); }), errc::not_connected, "moved from");
        }) == 0);
}

OVER_BOTH("C53: abort from another thread ends a wait, with its words, on all ranks") {
  CHECK(on<Ranks>(3, [](auto& comm) {
          std::optional<ringlet::error> e;
          if (comm.rank() == 0) {
            std::thread other([&] {
              std::this_thread::sleep_for(20ms);
              comm.abort("had enough");
            });
            e = error_of([&] { ringlet::barrier(comm); });
            other.join();
          } else if (comm.rank() == 1) {
            e = error_of([&] { ringlet::barrier(comm); });
          } else {  // never joins the barrier, and finds out when it wants to
            std::vector<int> x{1};
            while (comm.transport().told() == nullptr) std::this_thread::yield();
            e = error_of([&] { ringlet::all_reduce(comm, x); });
            expect(error_of([&] { ringlet::all_reduce(comm, x); }), errc::not_connected,
                   "has failed and is finished: rank 0: had");
          }
          expect(e, errc::aborted, "rank 0: had enough");
          expect(e->peer() == 0, "the rank that gave up");
        }) == 0);
}

OVER_BOTH("many threads may abort at once, while the owner fails by itself") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          std::vector<std::thread> others;
          for (int i = 0; i < 4; ++i) others.emplace_back([&] { comm.abort(); });
          {
            std::vector<int> x{1};
            error_of([&] { auto const dropped = ringlet::async_all_reduce(comm, x); });
          }
          for (auto& t : others) t.join();
          expect(error_of([&] { ringlet::barrier(comm); }), errc::not_connected, "has failed and is finished");
        }) == 0);
}

OVER_BOTH("a wait ends not before its deadline, and soon after, in words") {
  CHECK(on<Ranks>(
            2,
            [](auto& comm) {
              if (comm.rank() == 1) {
                while (comm.transport().told() == nullptr) std::this_thread::sleep_for(1ms);
                return;
              }
              auto const begin = std::chrono::steady_clock::now();
              auto const e = error_of([&] { ringlet::barrier(comm); });
              auto const took = std::chrono::steady_clock::now() - begin;
              expect(e, errc::timed_out, "rank 0 waited 200 ms in call 1 for rank 1");
              expect(took >= 200ms && took < 10s, "the time it took");
            },
            patient_for<Ranks>(200ms)) == 0);
}

TEST_CASE("C54: the deadlines that nobody has set are sane") {
  ringlet::connect_options<ringlet::in_process> const options;
  for (auto deadline : {options.timeout, options.connect_timeout}) {
    CHECK(deadline >= 10s);
    CHECK(deadline <= 10min);
  }
}

OVER_BOTH("a rank that leaves while others need it is named") {
  CHECK(on<Ranks>(3, [](auto& comm) {
          ringlet::barrier(comm);
          if (comm.rank() == 2) return;
          auto const e = error_of([&] { ringlet::barrier(comm); });
          expect(e, errc::peer_lost, "rank 2 has ended or left");
          expect(e->peer() == 2, "the rank that left");
          expect(error_of([&] { ringlet::barrier(comm); }), errc::not_connected, "rank 2 has ended or left");
        }) == 0);
}

OVER_BOTH("a rank that leaves in good order harms nobody") {
  CHECK(on<Ranks>(3, [](auto& comm) {
          std::vector<int> x(50'000, 1);
          for (int i = 0; i < 3; ++i) ringlet::all_reduce(comm, x);
          expect(x[49'999] == 27, "the sum");
        }) == 0);
}

OVER_BOTH("operations that outlive their communicator end; the peers are told") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          std::vector<int> x{1};
          if (comm.rank() == 0) {
            std::optional gone(std::move(comm));
            auto left_over = ringlet::async_all_reduce(*gone, x);
            gone.reset();
            expect(left_over.poll() == ringlet::status::failed, "the status");
            expect(error_of([&] { left_over.wait(); }), errc::not_connected, "communicator of this operation is gone");
            left_over.cancel();
          } else {
            expect(error_of([&] { ringlet::all_reduce(comm, x); }), errc::aborted,
                   "rank 0 left with operations unfinished");
          }
        }) == 0);
}

// Says how often a wait yields before it rests, and counts the rests.
template <unsigned Yields>
class counted_rests : public ringlet::in_process {
 public:
  using in_process::in_process;
  static constexpr unsigned yields = Yields;
  void rest() {
    ++rests;
    in_process::rest();
  }
  int rests = 0;
};

TEST_CASE_TEMPLATE("a transport may say how often a wait yields before it rests", X, counted_rests<0>,
                   counted_rests<~0u>) {
  CHECK(on<threads<X>>(2, [](auto& comm) {
          if (comm.rank() == 1) std::this_thread::sleep_for(50ms);
          ringlet::barrier(comm);
          expect(comm.rank() == 1 || (comm.transport().rests > 0) == (X::yields == 0), "rests");
        }) == 0);
}

// Counts how often it is to wait until no peer is at this rank's buffers.
class counted_settles : public ringlet::in_process {
 public:
  using in_process::in_process;
  void settle() {
    ++settles;
    in_process::settle();
  }
  int settles = 0;
};

TEST_CASE("where peers can reach buffers, none is at them when an operation has failed") {
  std::atomic<bool> started = false;
  CHECK(on<threads<counted_settles>>(2, [&](auto& comm) {
          std::vector<int> x(1);
          auto operation = ringlet::async_all_reduce(comm, x);
          if (comm.rank() == 1) started = true;
          while (!started) std::this_thread::yield();
          if (comm.rank() == 0) comm.abort("enough");
          expect(error_of([&] { operation.wait(); }), errc::aborted, "enough");
          expect(comm.transport().settles > 0, "it has not settled");
        }) == 0);
}
