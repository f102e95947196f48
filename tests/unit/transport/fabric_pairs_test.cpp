// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// That messages arrive, over all kinds of providers: the suite. Here, what is particular to this transport.
#include "ringlet/transport/fabric_pairs.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../fabric/fake_provider.hpp"
#include "../../fabric/over.hpp"
#include "../../ranks.hpp"
#include "ringlet/all_gather.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/point_to_point.hpp"

using namespace tests;

static_assert(ringlet::pairwise<ringlet::fabric> && ringlet::link<ringlet::fabric_pair_link, float>);

TEST_CASE("a provider without tagged messages: send and recv say so, and all else goes on") {
  CHECK(on<over_fake<"untagged">>(2, [](auto& comm) {
          std::vector<int> x(1);
          expect(error_of([&] { ringlet::send(comm, x, 1 - comm.rank()); }), errc::unsupported,
                 "provider untagged has no tagged messages");
          ringlet::barrier(comm);
        }) == 0);
}

TEST_CASE_TEMPLATE("who leaves at once stays until its message has been taken", Ranks, over_fake<"reordered">,
                   over_fake<"everything">) {
  ringlet::connect_options<typename Ranks::transport> soon;
  soon.timeout = 5s;
  for (std::size_t count : {1, 30'000}) {
    CHECK(on<Ranks>(
              3,
              [count](auto& comm) {
                std::vector<int> x(count, 7), y(count);
                // Rank 0 sends and is gone before rank 2, which first waits for rank 1, has looked.
                if (comm.rank() == 0) ringlet::send(comm, x, 2);
                if (comm.rank() == 1) ringlet::send(comm, x, 2);
                if (comm.rank() != 2) return;
                ringlet::recv(comm, y, 1);
                std::this_thread::sleep_for(30ms);
                ringlet::recv(comm, y, 0);
                expect(y == x, "what it sent");
              },
              soon) == 0);
  }
}

TEST_CASE("a peer that has left is named, once what it sent has been taken") {
  CHECK(on<over_fake<"plain">>(2, [](auto& comm) {
          std::vector<int> x(1'000, 7), y(1'000);
          if (comm.rank() == 0) return ringlet::send(comm, x, 1);
          ringlet::recv(comm, y, 0);
          expect(y == x, "what it had sent");
          expect(error_of([&] { ringlet::recv(comm, y, 0); }), errc::peer_lost,
                 "rank 0 has ended or left, and rank 1 waits in message 2 from rank 0");
        }) == 0);
}

TEST_CASE("what leaves straight from the caller's memory is not counted as copied") {
  CHECK(on<over_fake<"plain">>(2, [](auto& comm) {
          std::vector<float> x(100'000);
          ringlet::all_gather(comm, x);
          auto const c = comm.counters();
          expect(c.sent == 200'000 && c.received == 200'000 && c.copied == 0, "one half each way, in place");
        }) == 0);
}

TEST_CASE("different counts: an error that names both, on both sides") {
  CHECK(on<over_fake<"all_but_writes">>(3, [](auto& comm) {
          std::vector<float> x(300'000), y(5);
          auto const e = error_of([&] {
            if (comm.rank() == 1) ringlet::send(comm, x, 2);
            if (comm.rank() == 2) ringlet::recv(comm, y, 1);
            ringlet::barrier(comm);
          });
          expect(e, errc::mismatch,
                 "rank 2 called message of 5 float32 (call 1), but rank 1 called message of 300000 float32 (call 1)");
        }) == 0);
}

TEST_CASE("an acknowledgement that fails names who was to get it") {
  std::atomic<bool> taken = false;
  CHECK(on<over_fake<"all_but_writes">>(2, [&](auto& comm) {
          std::vector<int> x(1);
          auto& wires = comm.transport();
          if (comm.rank() == 0) {
            ringlet::send(comm, x, 1);
            taken.wait(false);
            wires.settle();  // its endpoint goes, and with it the acknowledgement that it has not taken
            while (wires.told() == nullptr) wires.lost(0), std::this_thread::sleep_for(1ms);
          } else {
            ringlet::recv(comm, x, 0);
            taken = true, taken.notify_one();
            auto const e = error_of([&] { ringlet::barrier(comm); });
            expect(e, errc::peer_lost, "rank 1 cannot go on: provider all_but_writes");
            expect(e->peer() == 0, "named is rank " + std::to_string(e->peer()));
          }
        }) == 0);
}
