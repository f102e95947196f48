// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/through_host.hpp"

#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "../emulated.hpp"
#include "ringlet/transport/shared_memory.hpp"

namespace {

using namespace tests;
using ringlet::through;
using R = ringlet::emulated_runtime;

// Memory of the device with guards on both sides.
class on_device {
 public:
  explicit on_device(std::size_t count) : count_(count), memory_(static_cast<float*>(R::allocate((count + 2) * 4))) {
    memory_[0] = memory_[count + 1] = -77;
  }
  on_device(on_device const&) = delete;
  ~on_device() { R::release(memory_); }
  float* data() const { return memory_ + 1; }
  std::size_t size() const { return count_; }
  bool guarded() const { return memory_[0] == -77 && memory_[count_ + 1] == -77; }

 private:
  std::size_t count_;
  float* memory_;
};
struct value_of {
  float* at;
  std::size_t count;
  int rank;
  template <ringlet::kernel_worker W>
  RINGLET_HD void operator()(W const& w, unsigned, unsigned) const {
    for (std::size_t i = w.rank(); i < count; i += w.size())
      at[i] = static_cast<float>(i % 100 + static_cast<unsigned>(rank));
  }
};
struct times_two {
  float* at;
  std::size_t count;
  template <ringlet::kernel_worker W>
  RINGLET_HD void operator()(W const& w, unsigned, unsigned) const {
    for (std::size_t i = w.rank(); i < count; i += w.size()) at[i] *= 2;
  }
};

template <class X>
int on_hosts(int n, auto&& f) {
  return launch(n, [&](self who) {
    auto comm = ringlet::connect<X>(who, {});
    f(comm);
  });
}

}  // namespace

TEST_CASE("what the stream wrote before is summed, and what it does after finds the sums") {
  for (int n : {1, 2, 3})
    CHECK(on_hosts<ringlet::shared_memory>(n, [](auto& comm) {
            ringlet::host_staging<R> staging(512, 3);
            stream s;
            for (std::size_t count : {0, 1, 127, 128, 129, 5000})
              for (bool in_place : {false, true}) {
                on_device const in(count), out(count);
                R::launch(s.get(), 1, 32, value_of{in.data(), count, comm.rank()});
                ringlet::all_reduce(through(staging, s.get()), comm, in, in_place ? in : out);
                R::launch(s.get(), 1, 32, times_two{in_place ? in.data() : out.data(), count});
                R::synchronise(s.get());
                float const n = static_cast<float>(comm.size());
                for (std::size_t i = 0; i < count; ++i) {
                  float const mine = static_cast<float>(i % 100), sum = 2 * (mine * n + n * (n - 1) / 2);
                  expect((in_place ? in : out).data()[i] == sum, "element " + std::to_string(i) + " is wrong");
                  if (!in_place)
                    expect(in.data()[i] == mine + static_cast<float>(comm.rank()), "the input was written to");
                }
                expect(in.guarded() && out.guarded(), "wrote beside the buffers");
              }
          }) == 0);
}

TEST_CASE("slices are under way at once, in pinned memory that is given back") {
  CHECK(on_hosts<ringlet::shared_memory>(2, [](auto& comm) {
          ringlet::host_staging<R> staging(1024, 4);
          expect(staging.slice(0) == staging.slice(4) && staging.slice(1) == staging.slice(0) + 1024,
                 "they do not take turns");
          stream s;
          on_device const a(10000);
          std::fill(a.data(), a.data() + a.size(), 1.0F);
          for (int k = 0; k < 3; ++k) ringlet::all_reduce(through(staging, s.get()), comm, a, ringlet::maximum{});
          ringlet::all_reduce(through(staging, s.get()), comm, a);
          R::synchronise(s.get());
          for (std::size_t i = 0; i < a.size(); ++i) expect(a.data()[i] == 2, "an element is wrong");
        }) == 0);
}

TEST_CASE("wrong buffers and impossible stagings are refused; the communicator stays good") {
  CHECK(on_hosts<ringlet::shared_memory>(2, [](auto& comm) {
          expect(error_of([] { ringlet::host_staging<R>(1024, 2); }), errc::invalid_argument, "at least 3");
          expect(error_of([] { ringlet::host_staging<R>(100, 3); }), errc::invalid_argument, "multiple of 128");
          R::here.maps_host = false;
          expect(error_of([] { ringlet::host_staging<R>(1024, 3); }), errc::unsupported, "map_host");
          R::here.maps_host = true;
          ringlet::host_staging<R> staging(1024);
          stream s;
          on_device const a(10), b(11);
          expect(error_of([&] { ringlet::all_reduce(through(staging, s.get()), comm, a, b); }), errc::invalid_argument,
                 "give as many");
          ringlet::all_reduce(through(staging, s.get()), comm, a);
        }) == 0);
}

TEST_CASE("a peer that is lost ends it with an error, and leaves nothing in flight") {
  CHECK(launch(1, [](self) {
          return launch(2, [](self who) {
            auto comm = ringlet::connect<ringlet::shared_memory>(who, {});
            ringlet::host_staging<R> staging(1024);
            stream s;
            on_device const a(100000);
            if (who.rank == 1) ::_exit(0);  // without a word
            auto const e = error_of([&] {
              for (;;) ringlet::all_reduce(through(staging, s.get()), comm, a);
            });
            expect(e, errc::peer_lost, "rank 1");
            expect(R::idle(staging.coming()) && R::idle(staging.going()), "copies are under way");
          });
        }) == 0);
}

TEST_CASE("a rank whose device fails tells the others, who would wait for it") {
  CHECK(launch(2, [](self who) {
          ringlet::connect_options<ringlet::shared_memory> options;
          options.timeout = 20s;
          auto comm = ringlet::connect<ringlet::shared_memory>(who, options);
          ringlet::host_staging<R> staging(1024);
          stream s;
          on_device const a(10000);
          if (who.rank == 1) {
            R::replay(staging.coming(), {[] { throw std::runtime_error("it broke"); }});
            error_of([&] { R::synchronise(staging.coming()); });
          }
          auto const e = error_of([&] { ringlet::all_reduce(through(staging, s.get()), comm, a); });
          expect(e, errc::unsupported, "it broke");
          expect(contains(e->what(), "rank 1") || who.rank == 1, "it does not say whose device");
        }) == 0);
}

TEST_CASE("nothing at all may be summed, wherever it does not lie") {
  CHECK(on_hosts<ringlet::shared_memory>(2, [](auto& comm) {
          ringlet::host_staging<R> staging(1024);
          stream s;
          std::span<float> const nothing;
          ringlet::all_reduce(through(staging, s.get()), comm, nothing);
        }) == 0);
}
