// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For Thread Sanitizer: ranks that are threads, as few slots as there can be, and slices so small that everyone waits
// for everyone all the time. Built by hand: c++ -std=c++20 -O1 -pthread -fsanitize=thread tsan_ring.cpp ../main.cpp -I
// ../../include
#include <doctest/doctest.h>
#include <sched.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "ringlet/all_reduce.hpp"
#include "ringlet/bootstrap/launch.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/operation.hpp"
#include "ringlet/transport/in_process.hpp"

// One data race is enough: it would go on to report thousands.
extern "C" char const* __tsan_default_options() { return "halt_on_error=1"; }

namespace {

using element = std::uint32_t;

template <class Poll>
void until(Poll poll) {
  auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (; !poll(); ::sched_yield())
    if (std::chrono::steady_clock::now() > end) throw std::logic_error("no end");
}

// Threads that reach each other's stages, but not what their callers give them.
struct apart : ringlet::in_process {
  using in_process::in_process;
  ringlet::position locate(void const*, std::size_t) const { return {}; }
};

// `f(communicator, input, output)` on so many threads, a hundred times; the output must then be the sum of the inputs.
template <class X = ringlet::in_process, class F>
bool all_sum(int ranks, std::size_t count, F f) {
  auto const rank = [&](auto who) {
    ringlet::connect_options<X> options;
    options.transport = {.slots = 2, .slot_bytes = 128, .lanes = 1, .board_bytes = 512, .stage_bytes = 2048};
    options.timeout = std::chrono::seconds(10);
    auto comm = ringlet::connect<X>(who, options);
    std::vector<element> in(count), out(count);
    auto const n = static_cast<element>(ranks);
    for (element turn = 0; turn < 100; ++turn) {
      for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<element>(i) + turn * static_cast<element>(who.rank);
      f(comm, in, out);
      for (std::size_t i = 0; i < count; ++i)
        if (out[i] != n * static_cast<element>(i) + turn * (n * (n - 1) / 2)) throw std::logic_error("a wrong sum");
    }
  };
  return ringlet::launch(ranks, rank, {.as = ringlet::ranks_as::threads}) == 0;
}

}  // namespace

TEST_CASE("a ring of slots orders everything that two ranks touch") {
  for (int ranks : {2, 3, 4})
    REQUIRE(all_sum(ranks, 150, [](auto& comm, auto& in, auto& out) {
      using schedule = ringlet::ring_schedule<ringlet::collective::all_reduce>;
      ringlet::call const called;
      ringlet::ring_operation op(schedule{comm.rank(), comm.size()}, comm.transport().lane(0),
                                 ringlet::buffers<element>{in.data(), out.data(), comm.chunks(in.size())},
                                 ringlet::pipelining{8, 1},
                                 ringlet::arithmetic<element, ringlet::sum>(ringlet::sum{}, comm.size()), &called);
      until([&] {
        ringlet::status const now = op.poll();
        if (now == ringlet::status::failed) throw std::logic_error("failed");
        return now == ringlet::status::ready;
      });
    }));
}

TEST_CASE("an exchange on boards orders everything that is on them") {
  for (int ranks : {2, 3, 4})
    REQUIRE(all_sum(ranks, 1, [](auto& comm, auto& in, auto& out) {
      auto& peers = comm.transport();
      ringlet::call called;
      called.count = in[0];
      out[0] = 0;
      *peers.template board<element>(1) = in[0];
      peers.publish(called);
      for (int peer = 0; peer < comm.size(); ++peer) {
        until([&] { return peers.published(peer); });
        element const its = *peers.template read<element>(peer, 1);
        if (peers.called(peer).count != its || peers.digest(peer) != ringlet::digest(peers.called(peer)))
          throw std::logic_error("a call does not belong to what came with it");
        out[0] += its;
      }
    }));
}

TEST_CASE("direct operations order everything that ranks touch") {
  for (int ranks : {2, 3, 4}) {
    REQUIRE(all_sum(ranks, 100, [](auto& comm, auto& in, auto& out) { ringlet::all_reduce(comm, in, out); }));
    REQUIRE(all_sum(ranks, 5000, [](auto& comm, auto& in, auto& out) { ringlet::all_reduce(comm, in, out); }));
  }
}

TEST_CASE("staged operations order everything that ranks touch, from round to round and from one to the next") {
  for (int ranks : {2, 3, 4})
    REQUIRE(all_sum<apart>(ranks, 1000, [](auto& comm, auto& in, auto& out) { ringlet::all_reduce(comm, in, out); }));
}
