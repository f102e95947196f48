// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every collective in streams, over emulated devices: each form, each route, each placement of buffers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "../emulated.hpp"
#include "memory.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/on_stream.hpp"

namespace {

using namespace tests;
using ringlet::on;

// Small whole numbers, which all types hold exactly, and so their sums.
template <class T>
T given(int rank, std::size_t i) {
  return static_cast<T>(static_cast<float>(static_cast<int>((i * 7 + static_cast<std::size_t>(rank) * 3) % 5)));
}
template <class T, class Op>
T reduced(int size, std::size_t i, Op combine) {
  float v = static_cast<float>(given<T>(0, i));
  for (int r = 1; r < size; ++r) v = combine(v, static_cast<float>(given<T>(r, i)));
  return static_cast<T>(v);
}
constexpr auto add = [](float a, float b) { return a + b; };
constexpr auto larger = [](float a, float b) { return std::max(a, b); };

// Every collective, out of place and in place, in one stream without waiting in between; then each element is looked
// at, and the bytes around all buffers.
template <class T, class Comm, class Op, class Combine>
void all_collectives(Comm& comm, emulated::stream s, std::span<std::byte> memory, std::size_t count, Op op,
                     Combine combine) {
  suite::arena arena(memory);
  auto const chunks = comm.chunks(count);
  auto const me = static_cast<std::size_t>(comm.rank());
  std::size_t const home = chunks.offset(me), mine = chunks.length(me);
  auto owner = [&](std::size_t i) {
    int r = 0;
    while (chunks.offset(static_cast<std::size_t>(r) + 1) <= i) ++r;
    return r;
  };
  auto filled = [&](std::size_t first, std::size_t n) {
    auto const at = arena.place<T>(n, true);
    for (std::size_t i = 0; i < n; ++i) at[i] = given<T>(comm.rank(), first + i);
    return at;
  };
  using read = std::span<T const>;
  read const input = filled(0, count), own = filled(home, mine);
  auto const sums = arena.place<T>(count), sums_here = filled(0, count), part = arena.place<T>(mine),
             part_here = filled(0, count), all = arena.place<T>(count), all_here = filled(0, count);
  ringlet::all_reduce(on(s), comm, input, sums, op);
  ringlet::all_reduce(on(s), comm, sums_here, op);
  ringlet::reduce_scatter(on(s), comm, input, part, op);
  ringlet::reduce_scatter(on(s), comm, part_here, part_here.subspan(home, mine), op);
  ringlet::all_gather(on(s), comm, own, all);
  ringlet::all_gather(on(s), comm, read(all_here.subspan(home, mine)), all_here);
  ringlet::wait(on(s), comm);

  std::string const which =
      "rank " + std::to_string(me) + ", " + std::to_string(count) + " " + ringlet::element_name<T>;
  auto same = [](T a, T b) { return std::memcmp(&a, &b, sizeof(T)) == 0; };
  for (std::size_t i = 0; i < count; ++i) {
    T const want = reduced<T>(comm.size(), i, combine), from = given<T>(owner(i), i);
    std::string const at = which + ", element " + std::to_string(i);
    expect(same(input[i], given<T>(comm.rank(), i)), at + ": the input was written to");
    expect(same(sums[i], want) && same(sums_here[i], want), at + " of all_reduce");
    expect(same(all[i], from) && same(all_here[i], from), at + " of all_gather");
    bool const is_mine = i >= home && i < home + mine;
    expect(same(part_here[i], is_mine ? want : given<T>(comm.rank(), i)), at + " of reduce_scatter in place");
    if (is_mine) expect(same(part[i - home], want), at + " of reduce_scatter");
  }
  expect(arena.guards_hold(), which + ": wrote beside its buffers");
}

// In memory from the communicator, which the other ranks reach, or in the device's own.
template <class Comm>
void everything(Comm& comm, bool in_reach = true) {
  constexpr std::size_t bytes = std::size_t{256} << 10;
  auto const window = comm.template allocate<std::byte>(bytes);
  std::span<std::byte> const room(in_reach ? window.data() : static_cast<std::byte*>(emulated::allocate(bytes)), bytes);
  stream s;
  for (std::size_t count : {0, 1, 2, 3, 7, 64, 1031}) {
    all_collectives<float>(comm, s.get(), room, count, ringlet::sum{}, add);
    all_collectives<ringlet::bfloat16>(comm, s.get(), room, count, ringlet::sum{}, add);
    all_collectives<std::int64_t>(comm, s.get(), room, count, ringlet::maximum{}, larger);
    ringlet::barrier(on(s.get()), comm);
  }
  all_collectives<float>(comm, s.get(), room, 5003, ringlet::sum{}, add);
  ringlet::wait(on(s.get()), comm);
}

// Settings with which everything but a barrier takes one route.
auto only(ringlet::device_route route) {
  auto o = small_device();
  o.transport.stage_bytes = 1024;
  o.transport.select.line_bytes = route == ringlet::device_route::lines ? 1 << 20 : 0;
  o.transport.select.one_shot_bytes = route == ringlet::device_route::one_shot ? 1 << 20 : 0;
  o.transport.select.staged_bytes = route == ringlet::device_route::ring ? 0 : 1 << 20;
  return o;
}

// That a call has left the traces of its route, and no other's.
template <class Comm>
void takes(Comm& comm, ringlet::device_route route, bool in_reach) {
  constexpr std::size_t bytes = 40000;
  auto const window = comm.template allocate<std::byte>(bytes);
  std::span<std::byte> const room(in_reach ? window.data() : static_cast<std::byte*>(emulated::allocate(bytes)), bytes);
  stream s;
  ringlet::device_lane const before = *comm.transport().device_lanes();
  all_collectives<float>(comm, s.get(), room, 1000, ringlet::sum{}, add);
  ringlet::device_lane const after = *comm.transport().device_lanes();
  bool const far = !in_reach, one_shot = route == ringlet::device_route::one_shot;
  expect((after.sent != before.sent) == (far && route == ringlet::device_route::ring), "slots were used, or were not");
  expect((after.shots != before.shots) == (one_shot || (far && route == ringlet::device_route::staged)),
         "stages were used, or were not");
  expect((after.letters != before.letters) == (route == ringlet::device_route::lines), "lines were used, or were not");
}

}  // namespace

TEST_CASE("every collective by a kernel on a device of each rank, on each route") {
  using ringlet::device_route;
  for (int n : {1, 2, 3, 4})
    for (auto route : {device_route::lines, device_route::one_shot, device_route::staged, device_route::ring})
      for (bool in_reach : {false, true}) {
        CAPTURE(n);
        CAPTURE(static_cast<int>(route));
        CAPTURE(in_reach);
        CHECK(on_devices(
                  n,
                  [&](auto& comm) {
                    expect(!comm.transport().stream_driven() && comm.transport().why_through_host().empty(),
                           "another form");
                    everything(comm, in_reach);
                    if (n != 1) takes(comm, route, in_reach);
                  },
                  only(route)) == 0);
      }
}

TEST_CASE("every collective, driven by streams among ranks that share a device") {
  for (int n : {2, 3, 4})
    CHECK(on_devices(
              n,
              [](auto& comm) {
                expect(comm.transport().stream_driven(), "one device among all must make streams wait");
                everything(comm);
              },
              small_device(), true) == 0);
}

TEST_CASE("every collective, through memory of the host") {
  for (auto route : {ringlet::device_route::one_shot, ringlet::device_route::ring})
    for (bool one_device : {false, true}) {
      auto o = only(route);
      o.transport.through_host = true;
      CHECK(on_devices(
                2,
                [](auto& comm) {
                  expect(contains(comm.transport().why_through_host(), "asked for"), "no reason is given");
                  everything(comm);
                },
                o, one_device) == 0);
    }
}

TEST_CASE("every collective, among threads of one process") {
  CHECK(on_devices_of_threads(3, [](auto& comm) { everything(comm); }) == 0);
  CHECK(on_devices_of_threads(
            3, [](auto& comm) { everything(comm, false); }, only(ringlet::device_route::ring)) == 0);
  CHECK(on_devices_of_threads(
            2, [](auto& comm) { everything(comm); }, small_device(), true) == 0);
}

TEST_CASE("policies of operators: 8-bit floats that accumulate wider, floats that travel narrower") {
  for (bool one_device : {false, true})
    CHECK(on_devices(
              3,
              [](auto& comm) {
                auto const memory = comm.template allocate<std::byte>(std::size_t{64} << 10);
                std::span<std::byte> const room(memory.data(), memory.size());
                stream s;
                all_collectives<ringlet::float8_e4m3>(comm, s.get(), room, 100,
                                                      ringlet::accumulate_in<float>(ringlet::sum{}), add);
                all_collectives<float>(comm, s.get(), room, 100, ringlet::travel_as<ringlet::bfloat16>(ringlet::sum{}),
                                       add);
              },
              small_device(), one_device) == 0);
}
