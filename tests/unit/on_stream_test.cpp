// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What calls in streams promise besides their results, which tests/suite/cuda_ipc.cpp looks at.
#include "ringlet/on_stream.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include "../emulated.hpp"
#include "ringlet/allocate.hpp"

namespace {

using namespace tests;
using ringlet::on;

// Notes which kernel was launched last, in words of the compiler.
struct noting_runtime : emulated {
  static inline std::string launched;
  template <ringlet::kernel_body Body>
  static void launch(stream s, unsigned blocks, unsigned threads, Body const& body) {
    launched = __PRETTY_FUNCTION__;
    emulated::launch(s, blocks, threads, body);
  }
};

}  // namespace

TEST_CASE("each size takes the route that the settings choose") {
  CHECK(launch(3, [](self who) {
          noting_runtime::use(who.rank);
          ringlet::connect_options<ringlet::cuda_ipc<noting_runtime>> o;
          o.transport.slots = 2, o.transport.slot_bytes = 256, o.transport.lanes = 2;
          o.transport.select = {.line_bytes = 1 << 10, .one_shot_bytes = 4 << 10, .staged_bytes = 16 << 10};
          auto comm = ringlet::connect<ringlet::cuda_ipc<noting_runtime>>(who, o);
          auto const memory = comm.allocate<std::byte>(32 << 10);
          stream s;
          auto const takes = [&](char const* kernel, auto like, std::size_t bytes, auto op) {
            std::span const part(reinterpret_cast<decltype(like)*>(memory.data()), bytes / sizeof like);
            ringlet::all_reduce(on(s.get()), comm, part, op);
            expect(contains(noting_runtime::launched, std::string("Body = ringlet::") + kernel),
                   std::to_string(bytes) + " bytes take " + noting_runtime::launched);
          };
          takes("line_kernel<", float{}, 256, ringlet::sum{});
          takes("direct_kernel<", std::complex<double>{}, 256, ringlet::sum{});  // too large for lines
          takes("direct_kernel<", float{}, 2 << 10, ringlet::sum{});
          takes("direct_kernel<", float{}, 8 << 10, ringlet::average{});
          takes("direct_or_ring_kernel<", float{}, 32 << 10, ringlet::sum{});
          takes("ring_kernel<", float{}, 256, ringlet::scaled_sum{2.0F});  // each rank may have another factor
          ringlet::wait(on(s.get()), comm);
        }) == 0);
}

TEST_CASE("calls of one communicator on several streams run one after the other") {
  for (bool one_device : {false, true})
    CHECK(on_devices(
              2,
              [](auto& comm) {
                constexpr std::size_t count = 3000;
                auto const a = comm.template allocate<float>(count);
                std::fill(a.begin(), a.end(), 1.0f);
                stream s[3];
                for (int k = 0; k < 12; ++k) ringlet::all_reduce(on(s[k % 3].get()), comm, a);
                for (auto& each : s) ringlet::wait(on(each.get()), comm);
                for (float x : a) expect(x == 4096, "each of twelve calls doubles what the one before left");
              },
              small_device(), one_device) == 0);
}

TEST_CASE("a captured call repeats, where a kernel runs it whole") {
  CHECK(on_devices(3, [](auto& comm) {
          auto const a = comm.template allocate<float>(700);
          std::fill(a.begin(), a.end(), 1.0f);
          stream s;
          emulated::begin_capture(s.get());
          ringlet::all_reduce(on(s.get()), comm, a);
          auto const graph = emulated::end_capture(s.get());
          for (int k = 0; k < 5; ++k) emulated::replay(s.get(), graph);
          ringlet::wait(on(s.get()), comm);
          for (float x : a) expect(x == 243, "three to the fifth");
        }) == 0);
  CHECK(on_devices(
            2,
            [](auto& comm) {
              auto const a = comm.template allocate<float>(10);
              stream s;
              emulated::begin_capture(s.get());
              expect(error_of([&] { ringlet::all_reduce(on(s.get()), comm, a); }), errc::invalid_argument,
                     "do not capture");
              emulated::end_capture(s.get());
              ringlet::all_reduce(on(s.get()), comm, a);  // nothing was sent: all is well
              ringlet::wait(on(s.get()), comm);
            },
            small_device(), true) == 0);
}

TEST_CASE("wrong buffers are refused before anything is sent") {
  CHECK(on_devices(2, [](auto& comm) {
          auto const a = comm.template allocate<float>(100);
          std::span<float> const all(a.data(), a.size());
          stream s;
          auto refused = [&](auto&& in, auto&& out) {
            return error_of([&] { ringlet::all_reduce(on(s.get()), comm, in, out); });
          };
          expect(refused(all.first(3), all.last(4)), errc::invalid_argument, "give as many");
          expect(refused(all.first(60), all.last(60)), errc::invalid_argument, "overlap");
          ringlet::all_reduce(on(s.get()), comm, a);
          ringlet::wait(on(s.get()), comm);
        }) == 0);
}

TEST_CASE("ranks that call different things find out, and say what") {
  for (bool one_device : {false, true})
    CHECK(on_devices(
              2,
              [](auto& comm) {
                auto const a = comm.template allocate<float>(100);
                stream s;
                std::span<float> const some(a.data(), comm.rank() == 0 ? 100 : 99);
                auto const e = error_of([&] {
                  ringlet::all_reduce(on(s.get()), comm, some);
                  ringlet::wait(on(s.get()), comm);
                });
                expect(e, errc::mismatch, " called ");
                expect(error_of([&] { ringlet::all_reduce(on(s.get()), comm, a); }), errc::not_connected);
              },
              small_device(), one_device) == 0);
}

TEST_CASE("they do, too, when their calls take different routes, whose kernels never meet") {
  auto o = small_device();
  o.timeout = 3s;
  CHECK(on_devices(
            2,
            [](auto& comm) {
              auto const a = comm.template allocate<float>(30000);
              stream s;
              std::span<float> const some(a.data(), comm.rank() == 0 ? 2 : 30000);
              auto const e = error_of([&] {
                ringlet::all_reduce(on(s.get()), comm, some);
                ringlet::wait(on(s.get()), comm);
              });
              expect(e, errc::mismatch, "all_reduce of 30000 float32");
            },
            o) == 0);
}

TEST_CASE("a rank that does not come is waited for as long as was said") {
  for (bool one_device : {false, true}) {
    auto o = small_device();
    o.timeout = 1s;
    CHECK(on_devices(
              2,
              [](auto& comm) {
                auto const a = comm.template allocate<float>(1000);
                stream s;
                if (comm.rank() == 0) ringlet::all_reduce(on(s.get()), comm, a);
                auto const e = error_of([&] {
                  while (comm.rank() != 0) {  // it comes too late, and is told so by its next call
                    std::this_thread::sleep_for(50ms);
                    if (comm.transport().told() != nullptr) ringlet::all_reduce(on(s.get()), comm, a);
                  }
                  ringlet::wait(on(s.get()), comm);
                });
                expect(e, errc::timed_out, "1000 ms");
              },
              o, one_device) == 0);
  }
}

TEST_CASE("abort ends what waits on devices, at all ranks") {
  for (bool one_device : {false, true})
    CHECK(on_devices(
              3,
              [](auto& comm) {
                stream s;
                auto const begin = std::chrono::steady_clock::now();
                auto const e = error_of([&] {
                  auto const a = comm.template allocate<float>(1000);
                  if (comm.rank() != 0) ringlet::all_reduce(on(s.get()), comm, a);
                  if (comm.rank() == 0) comm.abort("enough");
                  ringlet::wait(on(s.get()), comm);
                });
                expect(e, errc::aborted, "enough");
                expect(std::chrono::steady_clock::now() - begin < 3s, "it took as long as if nobody had been told");
              },
              small_device(), one_device) == 0);
}

TEST_CASE("a rank whose stream fails tells the others, who would wait for it") {
  for (bool one_device : {false, true})
    CHECK(on_devices(
              2,
              [](auto& comm) {
                auto const a = comm.template allocate<float>(1000);
                stream s;
                if (comm.rank() == 1) emulated::replay(s.get(), {[] { throw std::runtime_error("it broke"); }});
                auto const e = error_of([&] {
                  if (comm.rank() == 0) ringlet::all_reduce(on(s.get()), comm, a);
                  ringlet::wait(on(s.get()), comm);
                });
                expect(e, errc::unsupported, "it broke");
                expect(comm.transport().told() != nullptr, "nobody was told");
              },
              small_device(), one_device) == 0);
}

TEST_CASE("what a call that failed half-way has left in the stream has this rank's memory until it has run") {
  CHECK(launch(2, [](self who) {
          emulated::use(0);
          stream s;
          auto* const begin = static_cast<std::uint64_t*>(emulated::allocate(64));
          emulated::wait_value(s.get(), begin, 1);  // nothing runs before that
          auto const a = static_cast<float*>(emulated::allocate(4000));
          std::jthread later;
          auto const e = error_of([&] {
            auto comm = ringlet::connect<over_emulated>(who, small_device());
            emulated::here.waits_for_values = false;
            later = std::jthread([&] {
              std::this_thread::sleep_for(50ms);  // by then the communicator would be gone
              __atomic_store_n(begin, 1, __ATOMIC_RELEASE);
            });
            ringlet::all_reduce(on(s.get()), comm, std::span(a, 1000));
          });
          expect(e, errc::unsupported, "wait_value");
          emulated::synchronise(s.get());
        }) == 0);
}

TEST_CASE("a stream that is captured cannot be waited for, and that harms nobody") {
  CHECK(on_devices(2, [](auto& comm) {
          auto const a = comm.template allocate<float>(10);
          stream s;
          emulated::begin_capture(s.get());
          expect(error_of([&] { ringlet::wait(on(s.get()), comm); }), errc::invalid_argument, "captured");
          emulated::end_capture(s.get());
          ringlet::all_reduce(on(s.get()), comm, a);
          ringlet::wait(on(s.get()), comm);
        }) == 0);
}

TEST_CASE("nothing at all may be reduced, and matches only nothing") {
  for (bool one_device : {false, true})
    CHECK(on_devices(
              2,
              [](auto& comm) {
                stream s;
                std::span<float> const nothing;
                ringlet::all_reduce(on(s.get()), comm, nothing);
                ringlet::reduce_scatter(on(s.get()), comm, nothing, nothing);
                ringlet::all_gather(on(s.get()), comm, nothing, nothing);
                ringlet::wait(on(s.get()), comm);
                expect(error_of([&] { ringlet::all_reduce(on(s.get()), comm, std::span<float>(nothing.data(), 5)); }),
                       errc::invalid_argument, "a null pointer");
              },
              small_device(), one_device) == 0);
}
