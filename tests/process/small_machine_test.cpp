// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Machines with little shared memory, few processors or one memory node.

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "../over_both.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/barrier.hpp"

using namespace tests;
using ringlet::shared_memory;
using clock_type = std::chrono::steady_clock;

namespace {

// Runs f(directory) with a tmpfs of so many MiB that only this process sees; false where that is not allowed.
template <class F>
bool on_a_tmpfs(int mebibytes, F&& f) {
  if (::unshare(CLONE_NEWNS) != 0) return false;
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  std::string const directory = "/tmp", size = "size=" + std::to_string(mebibytes) + "m";
  if (::mount("ringlet-test", directory.c_str(), "tmpfs", 0, size.c_str()) != 0) return false;
  f(directory);
  return true;
}

// Half of the calls take longer than this.
template <class F>
double median_us(int calls, F&& f) {
  std::vector<double> took;
  for (int i = 0; i < calls; ++i) {
    auto const begin = clock_type::now();
    f();
    took.push_back(std::chrono::duration<double, std::micro>(clock_type::now() - begin).count());
  }
  std::nth_element(took.begin(), took.begin() + calls / 2, took.end());
  return took[static_cast<std::size_t>(calls) / 2];
}

}  // namespace

TEST_CASE("C56: eight ranks on 64 MiB of shared memory") {
  // In a process of its own, for the mount is to vanish with it.
  int const code = launch(1, [&](self) {
    int inner = 0;
    bool const done = on_a_tmpfs(64, [&](std::string const& directory) {
      ringlet::connect_options<shared_memory> options;
      options.transport.directory = directory;
      // The usual settings fit: 8 slots of 256 KiB a rank are 16 MiB.
      inner |= launch(8, [&](self who) {
        auto comm = ringlet::connect(who, options);
        std::vector<int> x(1'000'000, 1);
        ringlet::all_reduce(comm, x);
        expect(x[999'999] == 8, "the sum");
        // What does not fit is refused, on all ranks, on those that lack it in bytes, and does not crash.
        auto const e = error_of([&] { comm.allocate<char>(std::size_t{16} << 20); });
        expect(e.has_value(), "no error");
        bool const lacks = std::string(e->what()).find("could not have 16777216 bytes") == std::string::npos;
        expect(e, errc::out_of_memory, lacks ? "needs 16777216 bytes of shared memory in " + directory : "rank ");
        if (lacks) expect(e, errc::out_of_memory, "--shm-size");
        // Nothing else is harmed by it.
        ringlet::all_reduce(comm, x);
        expect(x[999'999] == 64, "the sum");
      });
      // Nor do settings that need more than there is.
      options.transport.slot_bytes = std::size_t{16} << 20;
      options.connect_timeout = 3s;
      inner |= launch(8, [&](self who) {
        auto const e = error_of([&] { ringlet::connect(who, options); });
        expect(e.has_value(), "no error");
        expect(e, errc::out_of_memory, "bytes of shared memory in " + directory);
      });
    });
    return done ? inner : 77;
  });
  if (::geteuid() != 0)
    MESSAGE("skipped: to mount a tmpfs takes root");
  else
    CHECK(code == 0);
}

OVER_BOTH("C66: more ranks than processors: no cliff") {
  // Every call needs all ranks, so it takes some turns of the processors. Were the waiting ranks to spin while those
  // that they wait for cannot run, it would take whole time slices.
  for (int size : {5, 8})
    CHECK(on<Ranks>(size, [](auto& comm) {
            std::vector<int> small(16, 1), large(50'000, 1);
            double const small_us = median_us(200, [&] { ringlet::all_reduce(comm, small); });
            double const large_us = median_us(20, [&] { ringlet::all_reduce(comm, large); });
            expect(small_us < 10'000, "a small all_reduce takes " + std::to_string(small_us) + " us");
            expect(large_us < 200'000, "a large all_reduce takes " + std::to_string(large_us) + " us");
          }) == 0);
}

OVER_BOTH("ranks that had a processor each when they connected, and then must share one, soon yield") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          std::vector<int> x(16, 1);
          int const here = ::sched_getcpu();
          int both[] = {here};
          ringlet::all_reduce(comm, both, ringlet::minimum{});
          cpu_set_t one;
          CPU_ZERO(&one);
          CPU_SET(both[0], &one);
          expect(::sched_setaffinity(0, sizeof one, &one) == 0, "cannot be bound");
          double const spin_us = median_us(9, [&] {
            for (int i = 0; i < 2'000; ++i) comm.session().pause();
          });
          double best_us = 1e9;  // other programs can only slow it
          for (int i = 0; i < 200; ++i)
            best_us = std::min(best_us, median_us(1, [&] {
                                 for (int k = 0; k < 20; ++k) ringlet::all_reduce(comm, x);
                               }));
          // Where each rank spins before it lets the other run, it is 40 spins.
          expect(best_us < 15 * spin_us,
                 "20 calls take " + std::to_string(best_us) + " us, a spin " + std::to_string(spin_us));
        }) == 0);
}

TEST_CASE("C55: to mind the deadline costs less than a hundredth of polling") {
  CHECK(launch(2,
               [](self who) {
                 auto comm = ringlet::connect<ringlet::in_process>(who);
                 auto const later = clock_type::now() + 20s;
                 if (who.rank == 1) {
                   who.store.get("measured", later);
                   return ringlet::barrier(comm);
                 }
                 auto waiting = ringlet::async_barrier(comm);
                 double best_poll = 1e9, best_look = 1e9;
                 for (int i = 0; i < 20; ++i) {
                   best_poll = std::min(best_poll, median_us(9, [&] {
                                                     for (int k = 0; k < 10'240; ++k) waiting.poll();
                                                   }) / 10'240);
                   best_look = std::min(best_look, median_us(9, [&] {
                                                     for (int k = 0; k < 100; ++k) comm.session().in_vain();
                                                   }) / 100);
                 }
                 who.store.set("measured", "");
                 waiting.wait();
                 expect(best_look / (1024 * best_poll) < 0.01,
                        "a poll takes " + std::to_string(1000 * best_poll) + " ns, a look at the clock, " +
                            "once in 1024 polls, " + std::to_string(1000 * best_look) + " ns");
               },
               {.as = ranks_as::threads}) == 0);
}

TEST_CASE("C67: a rank's shared memory lies on its own memory node") {
  std::ifstream online("/sys/devices/system/node/online");
  std::string nodes;
  online >> nodes;
  if (nodes.find_first_of("-,") == std::string::npos) {
    MESSAGE("skipped: this machine has one memory node");
    return;
  }
  // Ranks on the first and the last processor, which are of different nodes.
  CHECK(launch(2, [](self who) {
          cpu_set_t one;
          CPU_ZERO(&one);
          CPU_SET(who.rank == 0 ? 0 : ::sysconf(_SC_NPROCESSORS_CONF) - 1, &one);
          expect(::sched_setaffinity(0, sizeof one, &one) == 0, "cannot be bound");
          auto comm = ringlet::connect<shared_memory>(who);
          auto const window = comm.allocate<char>(1 << 20);
          unsigned cpu = 0, here = 0;
          int there = -1;
          constexpr int node_of_address = 3;  // MPOL_F_NODE | MPOL_F_ADDR
          ::getcpu(&cpu, &here);
          expect(::syscall(SYS_get_mempolicy, &there, nullptr, 0, window.data(), node_of_address) == 0,
                 "cannot be asked");
          expect(static_cast<unsigned>(there) == here,
                 "the memory of rank " + std::to_string(who.rank) + " is elsewhere");
          ringlet::barrier(comm);
        }) == 0);
}
