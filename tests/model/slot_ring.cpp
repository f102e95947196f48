// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/slot_ring.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "checker.hpp"

// Every execution of one sender and one receiver, for few slots and few slices. What holds for these holds for more:
// a counter is compared with the one before it only, and a slot is used again after `slots` slices.

namespace {

using ring = ringlet::slot_ring<model::word>;

constexpr std::size_t slot_bytes = 128, most_slots = 3;

struct shared_memory {
  model::word filled, credit;
  alignas(ringlet::interference) std::byte slots[most_slots * (ring::header + slot_bytes)];
};

// What a program around the queue may do wrong.
enum class bug {
  none,
  publish_is_relaxed,
  peek_is_relaxed,
  credit_is_relaxed,
  acquire_is_relaxed,
  commits_before_it_writes,
  releases_before_it_reads,
  releases_twice,
  sends_one_too_few,
  sends_one_too_many,
};

model::outcome explore(std::size_t slots, std::uint64_t slices, bug planted = bug::none) {
  return model::explore([=](model::world& w) {
    auto const memory = std::make_shared<shared_memory>();
    if (planted == bug::publish_is_relaxed) w.weaken_release(memory->filled);
    if (planted == bug::peek_is_relaxed) w.weaken_acquire(memory->filled);
    if (planted == bug::credit_is_relaxed) w.weaken_release(memory->credit);
    if (planted == bug::acquire_is_relaxed) w.weaken_acquire(memory->credit);
    ringlet::placement const one{0, 1, false};

    w.spawn([=, &w] {
      ring::sender end(ring{&memory->filled, &memory->credit, memory->slots, slots, slot_bytes});
      std::uint64_t const sent = slices - (planted == bug::sends_one_too_few) + (planted == bug::sends_one_too_many);
      for (std::uint64_t k = 0; k < sent; ++k) {
        auto const place = w.until([&] { return end.try_acquire<std::uint64_t>(one); });
        w.expect(end.try_acquire<std::uint64_t>(one).data == place.data, "asking again gives another place");
        if (planted == bug::commits_before_it_writes) end.commit();
        ringlet::call called;
        called.sequence = k;
        w.writes(reinterpret_cast<std::byte*>(place.data) - ring::header);
        end.announce(called);
        w.writes(place.data);
        *place.data = k;
        if (planted != bug::commits_before_it_writes) end.commit();
      }
    });

    w.spawn([=, &w] {
      ring::receiver end(ring{&memory->filled, &memory->credit, memory->slots, slots, slot_bytes});
      for (std::uint64_t k = 0; k < slices; ++k) {
        auto const got = w.until([&] { return end.try_peek<std::uint64_t>(one); });
        w.expect(end.try_peek<std::uint64_t>(one).data == got.data, "asking again gives another slice");
        if (planted == bug::releases_before_it_reads) end.release();
        w.reads(reinterpret_cast<std::byte*>(got.data) - ring::header);
        w.expect(end.announced().sequence == k, "a call is lost, comes twice, or comes with another slice");
        w.reads(got.data);
        w.expect(*got.data == k, "a slice is lost, or comes twice");
        if (planted == bug::releases_twice) end.release();
        if (planted != bug::releases_before_it_reads) end.release();
      }
      w.expect(!end.try_peek<std::uint64_t>(one), "there is a slice that nobody sent");
    });
  });
}

}  // namespace

TEST_CASE("C61: every slice arrives once, in order, whole, whatever the interleaving") {
  for (std::size_t slots : {2, 3})
    for (std::uint64_t slices = 0; slices <= 7; ++slices) {
      auto const found = explore(slots, slices);
      MESSAGE(slots << " slots, " << slices << " slices: " << found.executions << " executions");
      CHECK(found.violation == "");
    }
}

TEST_CASE("all slots can be under way at once, again and again") {
  for (std::size_t slots : {2, 3}) {
    ringlet::word filled{}, credit{};
    alignas(ringlet::interference) std::byte memory[most_slots * (ring::header + slot_bytes)];
    ringlet::slot_ring<> const r{&filled, &credit, memory, slots, slot_bytes};
    ringlet::slot_ring<>::sender sender(r);
    ringlet::slot_ring<>::receiver receiver(r);
    for (int turn = 0; turn < 3; ++turn) {
      std::size_t sent = 0;
      for (; sent <= slots && sender.try_acquire<int>({}); ++sent) sender.commit();
      CHECK(sent == slots);
      for (; sent > 0 && receiver.try_peek<int>({}); --sent) receiver.release();
      CHECK(sent == 0);
      CHECK(!receiver.try_peek<int>({}));
    }
  }
}

TEST_CASE("the model finds what a wrong queue does wrong") {
  for (bug planted : {bug::publish_is_relaxed, bug::peek_is_relaxed, bug::credit_is_relaxed, bug::acquire_is_relaxed}) {
    CAPTURE(static_cast<int>(planted));
    CHECK(explore(2, 4, planted).violation.substr(0, 11) == "a data race");
  }
  CHECK(explore(2, 4, bug::releases_before_it_reads).violation != "");
  CHECK(explore(2, 4, bug::commits_before_it_writes).violation != "");
  CHECK(explore(2, 4, bug::releases_twice).violation != "");
  CHECK(explore(2, 4, bug::sends_one_too_few).violation == "all who are left wait for each other");
  CHECK(explore(2, 4, bug::sends_one_too_many).violation == "there is a slice that nobody sent");
}
