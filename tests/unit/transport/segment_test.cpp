// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/segment.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../../ranks.hpp"

using namespace tests;
using ringlet::segment_peers;
using ringlet::segment_settings;

namespace {

// A rank whose segment, and the others', are given.
struct rank_of : segment_peers {
  rank_of(int rank, std::vector<std::byte*> segments, segment_settings const& s)
      : segment_peers(rank, std::move(segments), s, false) {}
  using segment_peers::left;
};

// Two ranks in one thread.
struct pair {
  explicit pair(segment_settings s = {2, 128, 1, 128}) {
    for (int i = 0; i < 2; ++i) {
      std::size_t const bytes = segment_peers::segment_bytes(s, 2);
      auto* const p = static_cast<std::byte*>(::operator new(bytes, std::align_val_t(128)));
      std::memset(p, 0, bytes);
      segments.push_back(p);
    }
    a = std::make_unique<rank_of>(0, segments, s);
    b = std::make_unique<rank_of>(1, segments, s);
  }
  ~pair() {
    for (auto* p : segments) ::operator delete(p, std::align_val_t(128));
  }
  std::vector<std::byte*> segments;
  std::unique_ptr<rank_of> a, b;
};

ringlet::call numbered(std::uint64_t sequence) {
  ringlet::call c;
  c.sequence = sequence;
  return c;
}

static_assert(ringlet::link<segment_peers::link, float>);

}  // namespace

TEST_CASE("settings that cannot work are refused, each by its name and what was expected") {
  auto refused = [](segment_settings s, std::string const& words) {
    auto const e = error_of([&] { s.check(); });
    REQUIRE(e);
    CHECK(e->why() == errc::invalid_argument);
    CHECK(contains(e->what(), words));
  };
  segment_settings{}.check();
  segment_settings{.slots = 2, .slot_bytes = 128, .lanes = 16, .board_bytes = 128}.check();
  refused({.slots = 1}, "slots is 1, expected 2 to 4096");
  refused({.slots = 4097}, "slots is 4097");
  refused({.slot_bytes = 0}, "slot_bytes is 0, expected a multiple of 128");
  refused({.slot_bytes = 100}, "slot_bytes is 100");
  refused({.slot_bytes = std::size_t{1} << 31}, "slot_bytes is 2147483648");
  refused({.lanes = 0}, "lanes is 0, expected 1 to 16");
  refused({.lanes = 17}, "lanes is 17");
  refused({.board_bytes = 0}, "board_bytes is 0");
  refused({.board_bytes = 200}, "board_bytes is 200");
}

TEST_CASE("each setting stands in the text that ranks compare") {
  segment_settings const usual;
  for (segment_settings other : {segment_settings{.slots = 9}, segment_settings{.slot_bytes = 256},
                                 segment_settings{.lanes = 2}, segment_settings{.board_bytes = 256}})
    CHECK(other.describe() != usual.describe());
}

TEST_CASE("a lane carries slices between neighbours, each lane its own, back and forth") {
  pair p({2, 128, 2, 128});
  for (std::size_t lane : {0, 1})
    for (auto [from, to] : {std::pair(p.a.get(), p.b.get()), std::pair(p.b.get(), p.a.get())}) {
      *from->lane(lane).next().try_acquire<int>({0, 1, false}).data = 7;
      CHECK_FALSE(to->lane(1 - lane).prev().try_peek<int>({0, 1, false}));
      from->lane(lane).next().commit();
      CHECK_FALSE(to->lane(1 - lane).prev().try_peek<int>({0, 1, false}));
      REQUIRE(to->lane(lane).prev().try_peek<int>({0, 1, false}));
      CHECK(*to->lane(lane).prev().try_peek<int>({0, 1, false}).data == 7);
      to->lane(lane).prev().release();
    }
}

TEST_CASE("a board is read once it is published, and until its reader publishes again") {
  pair p;
  for (std::uint64_t round = 1; round <= 5; ++round) {
    int const mine = static_cast<int>(round), its = 100 + mine;
    *p.a->board<int>(1) = mine;
    p.a->publish(numbered(round));
    CHECK(*p.a->read<int>(0, 1) == mine);
    CHECK(!p.a->published(1));
    *p.b->board<int>(1) = its;
    p.b->publish(numbered(10 * round));
    REQUIRE(p.a->published(1));
    CHECK(*p.a->read<int>(1, 1) == its);
    CHECK(*p.b->read<int>(0, 1) == mine);
    CHECK(p.a->digest(1) == ringlet::digest(numbered(10 * round)));
    CHECK(p.a->called(1).sequence == 10 * round);
  }
}

TEST_CASE("a board carries a short text and one as long as it is, which begins at a cache line") {
  constexpr std::size_t few = ringlet::short_board_bytes, many = 4096;
  pair p({.slots = 2, .slot_bytes = 128, .lanes = 1, .board_bytes = many});
  for (int turn = 0; turn < 2; ++turn) {
    for (auto* x : {p.a.get(), p.b.get()}) {
      std::memset(x->board<char>(many), 1 + x->rank(), many);
      std::memset(x->board<char>(few), 3 + x->rank(), few);
      x->publish(numbered(1));
    }
    for (int peer = 0; peer < 2; ++peer) {
      std::string_view const brief(p.a->read<char>(peer, few), few), whole(p.a->read<char>(peer, many), many);
      CHECK(brief.find_first_not_of(static_cast<char>(3 + peer)) == brief.npos);
      CHECK(whole.find_first_not_of(static_cast<char>(1 + peer)) == whole.npos);
      CHECK(reinterpret_cast<std::uintptr_t>(whole.data()) % 64 == 0);
    }
  }
}

TEST_CASE("a board that has not been read yet is not overwritten by the next one") {
  pair p;
  *p.a->board<int>(1) = 1;
  p.a->publish(numbered(1));
  *p.b->board<int>(1) = 2;
  p.b->publish(numbered(1));
  CHECK(*p.a->read<int>(1, 1) == 2);
  *p.a->board<int>(1) = 3;  // a goes on, b has not read a's first
  p.a->publish(numbered(2));
  CHECK(*p.b->read<int>(0, 1) == 1);
  CHECK(p.b->called(0).sequence == 1);
}

TEST_CASE("a fault reaches every rank, once; each keeps the first that it is told") {
  pair p;
  CHECK(p.a->told() == nullptr);
  CHECK_FALSE(p.a->lane(0).broken());
  p.b->tell({errc::timed_out, 7, "first"});
  p.a->tell({errc::aborted, 8, "second"});
  for (auto* rank : {p.a.get(), p.b.get()}) {
    REQUIRE(rank->told() != nullptr);
    CHECK(rank->told()->why == errc::timed_out);
    CHECK(rank->told()->peer == 7);
    CHECK(rank->told()->words == std::string("first"));
    CHECK(rank->broken());
    CHECK(rank->lane(0).broken());
  }
}

TEST_CASE("words of a fault that are too long are cut") {
  pair p;
  p.a->tell({errc::aborted, -1, "%s", std::string(1000, 'x').c_str()});
  CHECK(std::string(p.b->told()->words) == std::string(sizeof(ringlet::fault::words) - 1, 'x'));
}

TEST_CASE("whoever sees that a link is broken also sees why, however many tell at once") {
  for (int i = 0; i < 200; ++i) {
    pair p;
    std::vector<std::thread> tellers;
    for (auto* rank : {p.a.get(), p.b.get(), p.a.get(), p.b.get()})
      tellers.emplace_back([rank] {
        rank->tell({errc::aborted, 5, "words"});
        if (rank->told() == nullptr) std::abort();
      });
    while (!p.a->broken()) {
    }
    auto const* const f = p.a->told();
    REQUIRE(f != nullptr);
    CHECK(f->peer == 5);
    CHECK(f->words == std::string("words"));
    for (auto& t : tellers) t.join();
  }
}

TEST_CASE("a rank that leaves in good order says after how many operations") {
  pair p;
  CHECK(p.b->left(0) == 0);
  p.a->finish(0);
  CHECK(p.b->left(0) == 1);
  p.b->finish(41);
  CHECK(p.a->left(1) == 42);
}

TEST_CASE("processors are counted once, however many ranks may use them") {
  std::string one(128, '\0'), two(128, '\0');
  one[0] = 0b0011, two[0] = 0b0110, two[127] = static_cast<char>(0x80);
  CHECK(ringlet::detail::processors({one}) == 2);
  CHECK(ringlet::detail::processors({one, two}) == 4);
  CHECK(ringlet::detail::processors({ringlet::detail::affinity_text()}) >= 1);
}
