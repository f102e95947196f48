// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/stream_steps.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ringlet/emulated_kernel.hpp"
#include "ringlet/operation.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/schedule.hpp"

namespace {

using namespace ringlet;

// A device that does nothing, and writes down what it is asked for: w(ait) for a value, or a kernel with what it posts.
struct scribe {
  static inline std::vector<std::string> lines;
  using stream = int;
  static void wait_value(stream, void const* p, std::uint64_t v) {
    lines.push_back("wait " + name(p) + ">=" + std::to_string(v));
  }
  template <class Body>
  static void launch(stream, unsigned blocks, unsigned, Body const& b) {
    std::string text = std::to_string(b.count) + (b.got != nullptr ? " got" : "") + (b.own != nullptr ? " own" : "") +
                       (b.result != nullptr ? " keep" : "") + (b.last ? " last" : "");
    if (b.filled != nullptr) text += " filled=" + std::to_string(b.sent);
    if (b.credit != nullptr) text += " credit=" + std::to_string(b.received);
    if (b.announces != nullptr) text += " says";
    if (b.announced != nullptr) text += " compares";
    lines.push_back(text + " x" + std::to_string(blocks));
  }
  static inline word counters[4];
  static std::string name(void const* p) { return p == &counters[0] ? "credit" : p == &counters[1] ? "filled" : "?"; }
};

using arith = arithmetic<float, sum>;
device_lane lane_of_scribe(std::byte* slots) {
  device_lane lane;
  lane.next = {&scribe::counters[2], &scribe::counters[0], slots, 2, 512};
  lane.prev = {&scribe::counters[1], &scribe::counters[3], slots, 2, 512};
  return lane;
}

}  // namespace

TEST_CASE("a ring becomes, in the stream, waits for own memory and a kernel a step that posts to the neighbours") {
  alignas(128) static std::byte slots[2 * (128 + 512)];
  std::uint64_t sent = 0, received = 0;
  float in[200], out[200];
  using steps = stream_steps<scribe, arith>;
  for (int round = 0; round < 2; ++round) {
    scribe::lines.clear();
    steps link(0, lane_of_scribe(slots), sent, received, call{}, nullptr, 4, 32);
    ring_operation<ring_schedule<collective::all_reduce>, arith, steps, stream_worker<steps>> run(
        {0, 2}, link, {in, out, {200, 2}}, {128, 1}, arith(sum{}, 2), nullptr, stream_worker<steps>(link));
    CHECK(run.poll() == status::ready);
    std::vector<std::string> const first{"100 own filled=1 says x1", "wait filled>=1",
                                         "100 got own keep last filled=2 credit=1 compares x1", "wait filled>=2",
                                         "100 got keep credit=2 x1"};
    std::vector<std::string> const second{"wait credit>=1",
                                          "100 own filled=3 says x1",
                                          "wait filled>=3",
                                          "wait credit>=2",
                                          "100 got own keep last filled=4 credit=3 compares x1",
                                          "wait filled>=4",
                                          "100 got keep credit=4 x1"};
    CHECK(scribe::lines == (round == 0 ? first : second));
  }
}

TEST_CASE("a step's flags are posted once, by the last of its blocks, whatever its elements") {
  for (std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{16}, std::size_t{1000}}) {
    std::vector<float> own(count, 1), got(count, 2), out(count + 1, -1);
    word filled{0}, credit{0};
    lone_word stop{};
    kernel_report report{};
    std::uint32_t arrived = 0;
    call said{};
    call called;
    called.count = count;
    step_kernel<arith> const body{out.data(), nullptr, got.data(), own.data(), count,   arith(sum{}, 2),
                                  false,      &filled, 5,          &credit,    7,       called,
                                  1,          &said,   nullptr,    &stop,      &report, &arrived};
    // One block after the other: only the last one tells.
    detail::any_kernel_worker const alone;
    for (unsigned block : {1u, 2u, 0u}) {
      CHECK(filled.acquire() == 0);
      CHECK(credit.acquire() == 0);
      body(alone, block, 3);
    }
    CHECK(filled.acquire() == 5);
    for (float& x : out) x = -1;
    run_on_fibres(3, 33, count + 1, body);
    CHECK(filled.acquire() == 5);
    CHECK(credit.acquire() == 7);
    CHECK(said == called);
    CHECK(arrived == 0);
    for (std::size_t i = 0; i < count; ++i) REQUIRE(out[i] == 3);
    CHECK(out[count] == -1);
    // Told to stop, or told something else by the previous rank, it does nothing.
    filled.release(0);
    stop.is.release(1);
    run_on_threads(2, 2, body);
    CHECK(filled.acquire() == 0);
    stop.is.release(0);
    step_kernel<arith> other = body;
    call another = called;
    ++another.count;
    other.announced = &another;
    run_on_threads(2, 2, other);
    CHECK(filled.acquire() == 0);
    CHECK(kernel_report::verdict::unpack(report.said.acquire()).why == kernel_fault::differs);
    CHECK(report.theirs == another);
  }
}
