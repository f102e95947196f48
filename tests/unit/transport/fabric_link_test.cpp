// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/fabric_link.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "../../fabric/fake_provider.hpp"
#include "../../ranks.hpp"

using namespace tests;
using ringlet::fabric_endpoint;
using ringlet::fabric_library;
using ringlet::fabric_link;
using ringlet::fabric_shape;
using ringlet::fabric_traffic;
using ringlet::fabric_word;
using ringlet::placement;
using ringlet::slice;

static_assert(ringlet::link<fabric_link, float> && ringlet::landing_link<fabric_link, double>);
static_assert(ringlet::zero_copy_outbound<ringlet::fabric_sender, float> && ringlet::announcing_link<fabric_link>);

namespace {

// Two ranks in one thread, each other's neighbours on both sides.
struct two_ranks {
  struct rank {
    std::atomic<bool> stopped = false;
    std::unique_ptr<fabric_endpoint> endpoint;
    std::unique_ptr<fabric_traffic> traffic;
    fabric_link& link() { return *traffic->links[0]; }
  };
  two_ranks(std::string const& provider, fabric_shape shape, int level = 2)
      : offer(fabric_library::open("").find({"=" + provider, "", ""})) {
    for (rank& r : ranks) {
      r.endpoint = std::make_unique<fabric_endpoint>(fabric_library::open(""), *offer.choices[0].info, 256);
      r.traffic = std::make_unique<fabric_traffic>(shape, *r.endpoint, r.stopped);
    }
    for (int i : {0, 1}) {
      rank &me = ranks[static_cast<std::size_t>(i)], &other = ranks[static_cast<std::size_t>(1 - i)];
      me.traffic->next = {1 - i, me.endpoint->insert(other.endpoint->address()), other.traffic->inbox->base,
                          other.traffic->inbox->key};
      me.traffic->prev = me.traffic->next;
      me.traffic->open();
      if (level == 1) me.traffic->fall_back();
    }
    for (rank& r : ranks)
      while (r.traffic->waiting) r.traffic->progress();
  }
  fabric_link& a() { return ranks[0].link(); }
  fabric_link& b() { return ranks[1].link(); }
  // Lets everything arrive and end.
  void settle() {
    for (int i = 0; i < 100; ++i)
      for (rank& r : ranks) r.traffic->progress();
  }
  bool send(int value) {
    auto const s = a().next().try_acquire<int>({0, 1, false});
    if (!s) return false;
    *s.data = value;
    a().next().commit();
    return true;
  }
  int receive() {
    auto const s = b().prev().try_peek<int>({0, 1, false});
    if (!s) return -1;
    int const value = *s.data;
    b().prev().release();
    return value;
  }

  fabric_library::offer offer;
  std::array<rank, 2> ranks;
};
constexpr fabric_shape small{.slots = 3, .slot_bytes = 256, .lanes = 1};
constexpr std::size_t large = 1 << 16;  // ints, enough to open an output for

}  // namespace

TEST_CASE("as many slices as slots are under way, and each release gives one credit") {
  for (auto const& c : {std::pair{"plain", 2},
                        {"reordered", 2},
                        {"rx_cq_data", 2},
                        {"everything", 2},
                        {"no_writes", 1},
                        {"all_but_writes", 1}}) {
    CAPTURE(c.first);
    two_ranks w(c.first, small, c.second);
    int sent = 0, received = 0;
    for (int i = 0; i < 300; ++i) w.a().next().try_acquire<int>({0, 1, false});  // storms pass
    for (int tries = 0; tries < 1000; ++tries) sent += w.send(sent);
    CHECK(sent == 3);
    for (int tries = 0; tries < 2000 && received < 1; ++tries) received += w.receive() == received;
    CHECK(received == 1);
    for (int tries = 0; tries < 1000; ++tries) w.settle(), sent += w.send(sent), tries += 99;
    CHECK(sent == 4);
    for (int tries = 0; tries < 100'000 && received < 1000; ++tries) {
      sent += w.send(sent);
      int const got = w.receive();
      if (got != -1) CHECK(got == received++);
    }
    CHECK(received == 1000);
  }
}

TEST_CASE("numbers on the wire begin again at a multiple of the slots") {
  two_ranks w("plain", {.slots = 3, .slot_bytes = 128, .lanes = 1});
  static_assert(fabric_word::numbers % 3 != 0);
  int sent = 0, received = 0;
  bool right = true;
  while (received < static_cast<int>(fabric_word::numbers) / 64) {  // some; all of them are too many for a test
    sent += w.send(sent);
    if (int const got = w.receive(); got != -1) right = right && got == received++;
  }
  CHECK(right);
}

TEST_CASE("what was put is read from its place, and needed until drained") {
  two_ranks w("plain", small);
  int value = 1;
  CHECK(w.a().next().try_put<int>({&value, 1}, {0, 1, false}));
  CHECK(!w.a().next().drained());
  value = 2;  // against the contract, to see that there is no copy of it
  int got = -1;
  while (got == -1) got = w.receive();
  CHECK(got == 2);
  w.settle();
  CHECK(w.a().next().drained());
  CHECK(w.ranks[0].traffic->statistics.from_place == sizeof value);
  CHECK(w.ranks[0].traffic->statistics.staged == 0);
}

TEST_CASE("C79: memory that the provider does not know is copied where it must be registered, and is free at once") {
  two_ranks w("registers", small);
  int value = 1;
  CHECK(w.a().next().try_put<int>({&value, 1}, {0, 1, false}));
  value = 2;
  int got = -1;
  while (got == -1) got = w.receive();
  CHECK(got == 1);
  CHECK(w.ranks[0].traffic->statistics.staged == sizeof value);
  w.ranks[0].endpoint->enroll(reinterpret_cast<std::byte*>(&value), sizeof value, true);
  CHECK(w.a().next().try_put<int>({&value, 1}, {0, 1, false}));
  value = 3;
  for (got = -1; got == -1;) got = w.receive();
  CHECK(got == 3);
}

// Their end may need the previous rank, who may have gone on to another communicator.
TEST_CASE("a rank is drained while its credits are on their way, and the previous one has them all in the end") {
  two_ranks w("null_inject", small);
  for (int i : {1, 2}) {  // the second credit has to wait for the end of the first
    CHECK(w.send(i));
    while (w.receive() == -1) continue;
  }
  CHECK(w.b().next().drained());
  CHECK(!w.ranks[0].traffic->acknowledged());
  w.settle();
  CHECK(w.ranks[0].traffic->acknowledged());
}

TEST_CASE("a rank is not drained before the provider has taken its credits") {
  two_ranks w("storms", small);
  for (int i = 0; i < 20; ++i) {
    while (!w.send(i)) continue;
    while (w.receive() == -1) w.ranks[0].traffic->progress();
    while (!w.b().next().drained()) continue;
    for (int look = 0; look < 100; ++look) w.ranks[0].traffic->progress();  // the receiver is elsewhere
    CHECK(w.ranks[0].traffic->acknowledged());
  }
}

TEST_CASE("a final slice lands in an output that was opened for its operation, and nowhere else") {
  two_ranks w("registers", small);
  std::vector<int> output(large), input(large, 7);
  w.ranks[0].endpoint->enroll(reinterpret_cast<std::byte*>(input.data()), large * sizeof(int), true);
  w.ranks[1].endpoint->enroll(reinterpret_cast<std::byte*>(output.data()), large * sizeof(int), true);
  placement const where{100, 8, true};
  auto const put = [&](placement p) {
    REQUIRE(w.a().next().try_put<int>({input.data(), p.count}, p));
    w.settle();
    return w.b().prev().try_peek<int>(p).data;
  };
  auto const in_slot = [&](int* p) { return p != nullptr && (p < output.data() || p >= output.data() + large); };

  w.a().post(slice<int>{});  // the sender has begun the operation, the receiver not yet
  w.settle();
  CHECK(in_slot(put(where)));
  w.b().prev().release();
  CHECK(output[100] == 0);

  w.b().post(slice<int>{output.data(), large});
  w.settle();
  CHECK(put(where) == output.data() + 100);
  CHECK(output[107] == 7);
  CHECK(output[108] == 0);
  w.b().prev().release();
  CHECK(in_slot(put({100, 8, false})));  // not final
  w.b().prev().release();
  CHECK(in_slot(put({large - 4, 8, true})));  // beyond the end
  w.b().prev().release();

  w.a().next().announce({.sequence = 3});  // what brings a call goes where the receiver looks for calls
  CHECK(in_slot(put(where)));
  CHECK(w.b().prev().announced().sequence == 3);
  w.b().prev().release();

  w.a().post(slice<int>{});  // the next operation: the output of the one before is closed
  output.assign(large, 0);
  w.settle();
  CHECK(in_slot(put(where)));
  CHECK(output[100] == 0);
  w.b().prev().release();
  CHECK(w.ranks[1].traffic->statistics.landed == 8 * sizeof(int));
  CHECK(w.ranks[1].traffic->statistics.final_in_slots == 4 * 8 * sizeof(int));
}

TEST_CASE("a note of the operation after this one is not taken for this one's") {
  two_ranks w("plain", small);
  std::vector<int> output(large);
  w.ranks[1].endpoint->enroll(reinterpret_cast<std::byte*>(output.data()), large * sizeof(int), true);
  w.a().post(slice<int>{});
  w.b().post(slice<int>{});
  w.b().post(slice<int>{output.data(), large});  // it is one operation ahead
  w.settle();
  int const value = 5;
  CHECK(w.a().next().try_put<int>({&value, 1}, {0, 1, true}));
  w.settle();
  CHECK(output[0] == 0);
  w.b().prev().try_peek<int>({0, 1, true});
  w.b().prev().release();
  w.a().post(slice<int>{});
  CHECK(w.a().next().try_put<int>({&value, 1}, {0, 1, true}));
  w.settle();
  CHECK(output[0] == 5);
}

TEST_CASE("a note is not taken for one of so many operations later that its number comes again") {
  two_ranks w("plain", small);
  std::vector<int> output(large);
  w.ranks[1].endpoint->enroll(reinterpret_cast<std::byte*>(output.data()), large * sizeof(int), true);
  w.b().post(slice<int>{output.data(), large});
  w.settle();
  for (std::uint32_t i = 0; i <= fabric_word::numbers; ++i) w.a().post(slice<int>{});
  int const value = 5;
  CHECK(w.a().next().try_put<int>({&value, 1}, {0, 1, true}));
  w.settle();
  CHECK(output[0] == 0);
}

TEST_CASE("an output is not opened when it is small, or not registered") {
  two_ranks w("plain", small);
  std::vector<int> output(large);
  w.ranks[1].endpoint->enroll(reinterpret_cast<std::byte*>(output.data()), 1000, true);
  for (slice<int> s : {slice<int>{output.data(), 200}, slice<int>{output.data(), large}}) {
    w.a().post(slice<int>{});
    w.b().post(s);
    w.settle();
    int const value = 5;
    CHECK(w.a().next().try_put<int>({&value, 1}, {0, 1, true}));
    w.settle();
    w.b().prev().try_peek<int>({0, 1, true});
    w.b().prev().release();
    CHECK(output[0] == 0);
  }
}

TEST_CASE("what was called comes with the slice, however it is sent") {
  for (auto const& c : {std::pair{"plain", 2}, {"no_gather", 2}, {"no_writes", 1}})
    for (bool put : {false, true}) {
      CAPTURE(c.first);
      CAPTURE(put);
      two_ranks w(c.first, small, c.second);
      ringlet::call const called{.sequence = 11, .count = 12};
      int value = 9;
      w.ranks[0].endpoint->enroll(reinterpret_cast<std::byte*>(&value), sizeof value, true);
      if (put) {
        w.a().next().announce(called);
        CHECK(w.a().next().try_put<int>({&value, 1}, {0, 1, true}));
      } else {
        auto const s = w.a().next().try_acquire<int>({0, 1, false});
        *s.data = value;
        w.a().next().announce(called);
        w.a().next().commit();
      }
      slice<int> got;
      while (!(got = w.b().prev().try_peek<int>({0, 1, false}))) continue;
      CHECK(*got.data == 9);
      CHECK(w.b().prev().announced() == called);
      CHECK((w.ranks[0].traffic->statistics.staged != 0) == (put && std::string(c.first) == "no_gather"));
      w.b().prev().release();
      CHECK(w.send(10));
      while (!(got = w.b().prev().try_peek<int>({0, 1, false}))) continue;
      CHECK(*got.data == 10);
      CHECK(w.b().prev().announced() == ringlet::call{});
    }
}

TEST_CASE("a slice for a slot that is taken, or for no lane, ends everything") {
  for (std::uint32_t word :
       {fabric_word::of(fabric_word::kind::slice, 0, 0), fabric_word::of(fabric_word::kind::slice, 1, 0)}) {
    two_ranks w("plain", small);
    CHECK(w.send(1));
    w.settle();
    auto& t = *w.ranks[0].traffic;
    ringlet::fabric_ticket ticket;
    t.post_word(t.next, t.outbox->data, 8, small.sink(), word, ticket);
    w.settle();
    REQUIRE(w.ranks[1].endpoint->failed());
    CHECK(!w.b().broken());  // its transport first looks who has ended
    CHECK(!w.b().next().try_acquire<int>({0, 1, false}));
  }
}
