// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/cuda_ipc.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>

#include "../../emulated.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/on_stream.hpp"
#include "ringlet/point_to_point.hpp"
#include "ringlet/split.hpp"

namespace {

using namespace tests;
using ringlet::on;
using R = ringlet::emulated_runtime;

static_assert(ringlet::transport<over_emulated> && ringlet::mapped_peers<over_emulated, float>);
// Capabilities that a transport may have, and this one has.
static_assert(requires(over_emulated & x) { x.settle(), x.absent(); });
static_assert(requires(over_emulated & x, std::byte* p) { x.close_window(p), x.refuse_on_device(p); });

// Whether an all-reduce of some floats on the device is right.
template <class Comm>
void adds_up(Comm& comm) {
  stream s;
  auto const a = comm.template allocate<float>(1000);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i);
  ringlet::all_reduce(on(s.get()), comm, a);
  ringlet::wait(on(s.get()), comm);
  for (std::size_t i = 0; i < a.size(); ++i)
    expect(a[i] == static_cast<float>(i) * static_cast<float>(comm.size()), "the sum is wrong");
}

}  // namespace

TEST_CASE("C84, C88: where a rank's memory cannot be shared, all go through memory of the host, and know why") {
  struct trouble {
    void (*set)(ringlet::emulated_machine&);
    char const* words;
  };
  static constexpr trouble all[] = {
      {[](auto& m) { m.shares = false; }, "this memory has no handles"},
      {[](auto& m) { m.opens = false; }, "isolated"},
      {[](auto& m) { m.reaches = false; }, "do not reach each other"},
      {[](auto& m) { m.true_mappings = false; }, "IOMMU"},
  };
  for (auto const& t : all)
    CHECK(launch(3, [&](self who) {
            if (who.rank == 2) t.set(R::here);
            R::use(who.rank);
            auto comm = ringlet::connect<over_emulated>(who, small_device());
            std::string const& why = comm.transport().why_through_host();
            expect(contains(why, "rank 2: ") && contains(why, t.words), "the reason is '" + why + "'");
            adds_up(comm);
          }) == 0);
}

TEST_CASE("a device that reaches nothing at all is refused, by all ranks alike") {
  CHECK(launch(2, [&](self who) {
          R::here.maps_host = who.rank == 0;
          auto const e = error_of([&] { ringlet::connect<over_emulated>(who, small_device()); });
          expect(e, errc::unsupported, "rank 1's device does not reach memory of the host");
        }) == 0);
  CHECK(launch(3, [&](self who) {
          if (who.rank == 1) R::here.devices = 0;
          expect(error_of([&] { ringlet::connect<over_emulated>(who, small_device()); }), errc::unsupported,
                 "emulated finds no device at rank 1");
        }) == 0);
}

TEST_CASE("the form follows from which devices ranks have, or from what was asked for") {
  struct wanted {
    ringlet::device_form form;
    bool one_device, waits, driven;
  };
  using ringlet::device_form;
  for (wanted const w : {wanted{device_form::automatic, false, true, false},
                         {device_form::automatic, true, true, true},
                         {device_form::automatic, true, false, false},
                         {device_form::kernel, true, true, false},
                         {device_form::stream, false, true, true}}) {
    auto o = small_device();
    o.transport.form = w.form;
    CHECK(launch(2, [&](self who) {
            R::here.waits_for_values = who.rank == 0 || w.waits;
            R::use(w.one_device ? 3 : who.rank);
            auto comm = ringlet::connect<over_emulated>(who, o);
            expect(comm.transport().stream_driven() == w.driven, "the form is another");
            adds_up(comm);
          }) == 0);
  }
  auto o = small_device();
  o.transport.form = device_form::stream;
  CHECK(launch(2, [&](self who) {
          R::here.waits_for_values = who.rank == 0;
          expect(error_of([&] { ringlet::connect<over_emulated>(who, o); }), errc::unsupported,
                 "no streams that wait for values, as device_form::stream was told to use, at rank 1");
        }) == 0);
}

TEST_CASE("settings that differ, or that cannot work, are refused") {
  CHECK(launch(2, [](self who) {
          auto o = small_device();
          o.transport.lanes = who.rank == 0 ? 2 : 3;
          expect(error_of([&] { ringlet::connect<over_emulated>(who, o); }), errc::mismatch, "lanes=");
        }) == 0);
  auto refused = [](auto&& change, char const* words) {
    auto o = small_device();
    change(o.transport);
    auto const e = error_of([&] { o.transport.check(); });
    REQUIRE(e.has_value());
    CHECK(contains(e->what(), words));
  };
  refused([](auto& s) { s.slots = 1; }, "with one, a ring locks");
  refused([](auto& s) { s.slot_bytes = 100; }, "multiple of 128");
  refused([](auto& s) { s.lanes = 65; }, "1 to 64");
  refused([](auto& s) { s.threads = 48; }, "multiple of 32");
  refused([](auto& s) { s.host.slots = 1; }, "slots");
}

TEST_CASE("what is on the host goes through memory of the host") {
  CHECK(on_devices(3, [](auto& comm) {
          std::vector<float> v(5000, 1);
          ringlet::all_reduce(comm, v);
          for (float x : v) expect(x == 3, "the sum on the host is wrong");
          auto const a = comm.template allocate<float>(10);
          expect(error_of([&] { ringlet::all_reduce(comm, a); }), errc::invalid_argument, "say on(stream)");
          int const right = (comm.rank() + 1) % 3, left = (comm.rank() + 2) % 3;
          std::vector<float> mine(5000, static_cast<float>(comm.rank()));
          ringlet::send(comm, mine, right);
          ringlet::recv(comm, v, left);
          for (float x : v) expect(x == static_cast<float>(left), "the message on the host is wrong");
          expect(error_of([&] { ringlet::send(comm, a, right); }), errc::invalid_argument, "out of the host's reach");
          expect(error_of([&] { ringlet::recv(comm, a, left); }), errc::invalid_argument, "out of the host's reach");
          adds_up(comm);
          ringlet::barrier(comm);
        }) == 0);
}

TEST_CASE("when communicators go, devices hold nothing of theirs any more") {
  CHECK(launch(1, [](self) {
          std::atomic<void*> part[2]{};
          expect(launch(2,
                        [&](self who) {
                          R::use(who.rank);
                          auto comm = ringlet::connect<over_emulated>(who, small_device());
                          adds_up(comm);
                          part[who.rank] = comm.transport().device_lanes();
                        },
                        {.as = ranks_as::threads}) == 0,
                 "a rank failed");
          for (auto& p : part) expect(error_of([&] { R::block_of(p); }), errc::unsupported, "no allocation");
        }) == 0);
}

TEST_CASE("a rank that goes while its peers stay keeps nobody for long, and leaves them their mappings") {
  CHECK(on_devices(2, [](auto& comm) {
          adds_up(comm);
          if (comm.rank() == 0) return;
          std::this_thread::sleep_for(1200ms);  // longer than rank 0 waits
          comm.transport().device_lanes()->stop->is.acquire();
        }) == 0);
}

TEST_CASE("ranks of a communicator that was split have streams and devices as before") {
  CHECK(on_devices(4, [](auto& comm) {
          auto half = comm.split(comm.rank() % 2);
          expect(half.has_value() && half->size() == 2, "not in halves");
          expect(half->transport().devices()[static_cast<std::size_t>(half->rank())] == R::id(comm.rank()),
                 "the device is another");
          adds_up(*half);
          adds_up(comm);
        }) == 0);
}
