// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/point_to_point.hpp"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "../over_both.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/split.hpp"

using namespace tests;
using ringlet::status;

OVER_BOTH("every form of the call") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          std::vector<int> const in{1, 2};
          std::vector<int> out(2);
          std::array<int, 2> fixed{};
          int plain[2] = {};
          if (comm.rank() == 0) {
            for (int i = 0; i < 3; ++i) ringlet::send(comm, in, 1);
            ringlet::async_send(comm, std::span(in), 1).wait();
            ringlet::send(comm, std::vector<int>{}, 1);
          } else {
            ringlet::recv(comm, out, 0);
            ringlet::recv(comm, fixed, 0);
            ringlet::recv(comm, plain, 0);
            expect(out == in && fixed == std::array{1, 2} && plain[1] == 2, "a vector, an array, a plain array");
            out = {0, 0};
            auto operation = ringlet::async_recv(comm, std::span(out), 0);
            while (operation.poll() == status::pending) {
            }
            operation.wait();
            expect(out == in, "a span, started and polled");
            ringlet::recv(comm, std::span<int>(), 0);
          }
        }) == 0);
}

OVER_BOTH("a ring in which all send to the right before they receive from the left does not lock, however large") {
  for (std::size_t count : {1, 1'000, 300'000})
    CHECK(on<Ranks>(5, [count](auto& comm) {
            int const right = (comm.rank() + 1) % 5, left = (comm.rank() + 4) % 5;
            std::vector<int> const mine(count, comm.rank());
            std::vector<int> its(count);
            for (int turn = 0; turn < 3; ++turn) {
              auto sent = ringlet::async_send(comm, mine, right);
              auto received = ringlet::async_recv(comm, its, left);
              sent.wait(), received.wait();
              expect(its == std::vector<int>(count, left), "what the left one sent");
            }
          }) == 0);
}

OVER_BOTH("messages keep their order between two ranks, and wait for nobody else's") {
  ringlet::connect_options<typename Ranks::transport> soon;
  soon.timeout = 5s;
  CHECK(on<Ranks>(
            3,
            [](auto& comm) {
              constexpr int many = 50;
              using X = typename Ranks::transport;
              std::vector<std::vector<int>> values;
              std::deque<ringlet::message_operation<X, int>> under_way;
              auto count = [](int i) { return static_cast<std::size_t>(i % 5 == 0 ? 40'000 : i); };
              auto start = [&](int i, int peer, bool sends) {
                under_way.emplace_back(comm.session(), values.back().data(), count(i), peer, sends);
              };
              // Rank 0 sends to both, all at once; rank 2 takes the first before rank 1 takes any.
              values.reserve(2 * many);
              if (comm.rank() == 0) {
                for (int i = 0; i < many; ++i)
                  for (int to : {1, 2}) values.emplace_back(count(i), 10 * i + to), start(i, to, true);
                for (auto& m : under_way) m.wait();
              } else {
                if (comm.rank() == 1) {
                  std::vector<int> go(1);
                  ringlet::recv(comm, go, 2);
                }
                for (int i = 0; i < many; ++i) values.emplace_back(count(i)), start(i, 0, false);
                if (comm.rank() == 2) {
                  for (auto& m : under_way) m.wait();
                  ringlet::send(comm, std::vector<int>{1}, 1);
                }
                while (!under_way.empty()) under_way.back().wait(), under_way.pop_back();  // the last one first
                for (int i = 0; i < many; ++i)
                  for (int x : values[static_cast<std::size_t>(i)])
                    expect(x == 10 * i + comm.rank(), "the message's values");
              }
            },
            soon) == 0);
}

OVER_BOTH("who waits in a collective drives its messages, and who waits for a message its collectives") {
  ringlet::connect_options<typename Ranks::transport> soon;
  soon.timeout = 5s;
  CHECK(on<Ranks>(
            2,
            [](auto& comm) {
              std::vector<int> big(500'000, comm.rank()), sum(300'000, 1);
              if (comm.rank() == 0) {
                auto sent = ringlet::async_send(comm, big, 1);
                ringlet::barrier(comm);  // where rank 1 comes only when it has it all
                sent.wait();
              } else {
                ringlet::recv(comm, big, 0);
                ringlet::barrier(comm);
              }
              auto reduced = ringlet::async_all_reduce(comm, sum);
              if (comm.rank() == 0) {
                reduced.wait();
                ringlet::send(comm, big, 1);
              } else {
                ringlet::recv(comm, big, 0);  // which is sent once the sum is there
                reduced.wait();
              }
              expect(big[0] == 0 && big.back() == 0 && sum[0] == 2, "the values");
            },
            soon) == 0);
}

OVER_BOTH("different counts or elements: an error that names both, on both sides") {
  for (std::size_t sent : {3, 400'000})
    CHECK(on<Ranks>(3, [sent](auto& comm) {
            std::vector<float> const x(sent);
            std::vector<float> y(5);
            auto const e = error_of([&] {
              if (comm.rank() == 1) ringlet::send(comm, x, 2);
              if (comm.rank() == 2) ringlet::recv(comm, y, 1);
              ringlet::barrier(comm);
            });
            expect(e, errc::mismatch,
                   "rank 2 called message of 5 float32 (call 1), but rank 1 called message of " + std::to_string(sent) +
                       " float32 (call 1)");
          }) == 0);
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto const e = error_of([&] {
            if (comm.rank() == 0) ringlet::send(comm, std::vector<float>(2), 1);
            std::vector<int> y(2);
            if (comm.rank() == 1) ringlet::recv(comm, y, 0);
            ringlet::barrier(comm);
          });
          expect(e, errc::mismatch, "message of 2 int32 (call 1), but rank 0 called message of 2 float32");
        }) == 0);
}

OVER_BOTH("a peer that has left is named, once what it sent has been taken") {
  CHECK(on<Ranks>(3, [](auto& comm) {
          std::vector<int> x(1'000, 7), y(1'000);
          auto pair = comm.split(comm.rank() == 2 ? -1 : 0);
          if (comm.rank() == 0) ringlet::send(*pair, x, 1);
          if (comm.rank() == 0) pair.reset();  // leaves in good order
          ringlet::barrier(comm);
          if (comm.rank() != 1) return;
          ringlet::recv(*pair, y, 0);
          expect(y == x, "what it had sent");
          expect(error_of([&] { ringlet::recv(*pair, y, 0); }), errc::peer_lost,
                 "rank 0 has ended or left, and rank 1 waits in message 2 from rank 0");
        }) == 0);
}

OVER_BOTH("nobody comes: the deadline ends it, on both sides") {
  ringlet::connect_options<typename Ranks::transport> options;
  options.timeout = 100ms;
  CHECK(on<Ranks>(
            2,
            [](auto& comm) {
              std::vector<int> x(comm.rank() == 0 ? 1 : 1'000'000);
              auto const e = error_of([&] {
                if (comm.rank() == 0) ringlet::recv(comm, x, 1);
                for (;;) ringlet::barrier(comm);
              });
              expect(e, errc::timed_out, "");
            },
            options) == 0);
}

OVER_BOTH("who waits for a message has no deadline while those before it get on") {
  using X = typename Ranks::transport;
  auto options = with_slots<X>(2, 4096);
  options.timeout = 500ms;
  CHECK(on<Ranks>(
            2,
            [](auto& comm) {
              std::vector<int> large(300'000, 1 - comm.rank()), small(1, 1 - comm.rank());
              if (comm.rank() == 0) {
                auto const before = ringlet::async_send(comm, large, 1);
                ringlet::send(comm, small, 1);
              } else {
                auto before = ringlet::async_recv(comm, large, 0);
                while (before.poll() == status::pending) std::this_thread::sleep_for(6ms);
                ringlet::recv(comm, small, 0);
                expect(large.back() == 1 && small[0] == 1, "the values");
              }
            },
            options) == 0);
}

OVER_BOTH("abort and cancel end messages everywhere; one that is dropped is told of") {
  for (int how : {0, 1, 2})
    CHECK(on<Ranks>(2, [how](auto& comm) {
            std::vector<int> x(1'000'000);
            auto const e = error_of([&] {
              if (comm.rank() == 0) ringlet::recv(comm, x, 1);
              auto operation = ringlet::async_recv(comm, x, 0);
              if (how == 0) comm.abort("enough");
              if (how == 1) operation.cancel();
              if (how == 2) {
                auto const dropped = ringlet::async_send(comm, x, 0);
                return;
              }
              operation.wait();
            });
            if (comm.rank() == 0 || how != 2)
              expect(e, errc::aborted, std::array{"rank 1: enough", "rank 1 cancelled", "rank 1 dropped"}[how]);
          }) == 0);
}

OVER_BOTH("a message that outlives its communicator says so") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          std::vector<int> x(1'000'000);
          if (comm.rank() == 1)
            return expect(error_of([&] { ringlet::recv(comm, x, 0); }), errc::aborted, "rank 0 left");
          std::optional mine(std::move(comm));
          auto sent = ringlet::async_send(*mine, x, 1);
          mine.reset();
          expect(error_of([&] { sent.wait(); }), errc::not_connected, "the communicator of this operation is gone");
        }) == 0);
}

OVER_BOTH("wrong arguments are refused, and nothing is lost") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          std::vector<int> x(1);
          auto refused = [&](auto f, char const* words) { expect(error_of(f), errc::invalid_argument, words); };
          refused([&] { ringlet::send(comm, x, 2); }, "there is no rank 2 among 2 to send to");
          refused([&] { ringlet::recv(comm, x, -1); }, "there is no rank -1 among 2");
          refused([&] { ringlet::send(comm, x, comm.rank()); }, "would send to itself");
          refused([&] { ringlet::send(comm, std::span(static_cast<int*>(nullptr), 3), 1 - comm.rank()); },
                  "null pointer");
          ringlet::barrier(comm);
        }) == 0);
}
