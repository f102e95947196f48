// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/fabric_endpoint.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "../../fabric/fake_provider.hpp"
#include "../../ranks.hpp"

using namespace tests;
using ringlet::fabric_endpoint;
using ringlet::fabric_library;
using ringlet::fabric_ticket;
using posted = fabric_endpoint::posted;

namespace {
// An endpoint of a fake provider, which may write to itself.
struct one {
  explicit one(std::string const& provider)
      : library(fabric_library::open("")),
        offer(library.find({"=" + provider, "", ""})),
        e(library, *offer.choices[0].info, 64),
        self(e.insert(e.address())) {}
  struct seen {
    int ends = 0;
    std::vector<std::uint64_t> words;
    void ended(fabric_ticket&) { ++ends; }
    void arrived(std::uint64_t w, fabric_ticket*) { words.push_back(w); }
  };
  fabric_endpoint::message of(std::byte* from, std::size_t bytes, fabric_endpoint::region const& in) {
    fabric_endpoint::message m;
    m.add(from, bytes, in.descriptor);
    return m;
  }
  fabric_library const& library;
  fabric_library::offer offer;
  fabric_endpoint e;
  fi_addr_t self;
  std::byte memory[4096] = {};
};
}  // namespace

TEST_CASE("keys that the application chooses are random numbers of 63 bits") {
  one x("plain");
  std::set<std::uint64_t> keys;
  std::uint64_t all = 0;
  for (std::byte& b : x.memory) {
    auto const key = x.e.enroll(&b, 1, true).key;
    CHECK((key >> 63) == 0);
    all |= key;
    keys.insert(key);
  }
  CHECK(keys.size() == sizeof x.memory);
  CHECK(all == (~std::uint64_t{0} >> 1));
}

TEST_CASE("memory is found in the region that holds all of it") {
  one x("plain");
  auto const& r = x.e.enroll(x.memory + 100, 200, true);
  CHECK(x.e.region_of(x.memory + 100, 200) == &r);
  CHECK(x.e.region_of(x.memory + 299, 1) == &r);
  CHECK(x.e.region_of(x.memory + 299, 2) == nullptr);
  CHECK(x.e.region_of(x.memory + 99, 2) == nullptr);
  CHECK(x.e.region_of(x.memory + 100, static_cast<std::size_t>(-1)) == nullptr);
  x.e.dismiss(x.memory + 100);
  CHECK(x.e.region_of(x.memory + 100, 1) == nullptr);
}

TEST_CASE("C80: a registration that is refused says so in the provider's words, and what to do") {
  one x("plain");
  auto const e = error_of([&] { x.e.enroll(x.memory, std::size_t{1} << 40, true); });
  expect(e, errc::out_of_memory, "Cannot allocate memory");
  CHECK(contains(e->what(), "ulimit -l"));
}

TEST_CASE("a write arrives with its word, and ends") {
  for (char const* provider : {"plain", "registers", "rx_cq_data"}) {
    CAPTURE(provider);
    one x(provider);
    auto const& r = x.e.enroll(x.memory, sizeof x.memory, true);
    x.memory[7] = std::byte{42};
    fabric_ticket t, filler{.what = fabric_ticket::use::filler};
    if (x.e.needs_fillers()) CHECK(x.e.receive_nothing(filler) == posted::yes);
    CHECK(x.e.write({x.self, r.base + 1000, r.key}, x.of(x.memory, 16, r), 77, t) == posted::yes);
    CHECK(t.out);
    CHECK(x.memory[1007] == std::byte{0});
    one::seen seen;
    while (t.out) x.e.poll(seen);
    CHECK(x.memory[1007] == std::byte{42});
    CHECK(seen.words == std::vector<std::uint64_t>{77});
    CHECK(seen.ends == 1);
    CHECK(filler.out == false);
  }
}

TEST_CASE("few bytes are free at once where the provider injects; where it cannot, the ticket is out") {
  for (auto const& c : {std::pair{"plain", true}, {"null_inject", false}, {"refused_inject", false}}) {
    CAPTURE(c.first);
    one x(c.first);
    auto const& r = x.e.enroll(x.memory, sizeof x.memory, true);
    fabric_ticket t;
    CHECK(x.e.write_few({x.self, r.base + 64, r.key}, x.of(x.memory, 8, r), 5, t) == posted::yes);
    CHECK(t.out == !c.second);
    one::seen seen;
    while (t.out || seen.words.empty()) x.e.poll(seen);
  }
}

TEST_CASE("C81: what a provider cannot take now is answered with later, and nothing has begun") {
  one x("storms");
  auto const& r = x.e.enroll(x.memory, sizeof x.memory, true);
  fabric_ticket t;
  int later = 0;
  for (posted p = posted::later; p == posted::later; ++later) {
    p = x.e.write({x.self, r.base, r.key}, x.of(x.memory, 8, r), 5, t);
    CHECK(t.out == (p == posted::yes));
    CHECK(p != posted::failed);
  }
  CHECK(later > 1);
}

TEST_CASE("whether writes work is found out by trying, and that they do not is no failure") {
  one x("no_writes");
  auto const& r = x.e.enroll(x.memory, sizeof x.memory, true);
  fabric_ticket t;
  CHECK(x.e.try_write({x.self, r.base, r.key}, x.of(x.memory, 8, r), 5, t) == posted::failed);
  CHECK(!x.e.failed());
  CHECK(!t.out);
}

TEST_CASE("C79: an error of the completion queue is read, kept in the provider's words, and the last thing that is") {
  one x("fails");
  auto const& r = x.e.enroll(x.memory, sizeof x.memory, true);
  one::seen seen;
  for (int i = 0; i < 100 && !x.e.failed(); ++i) {
    fabric_ticket t;
    CHECK(x.e.write({x.self, r.base, r.key}, x.of(x.memory, 8, r), 5, t) == posted::yes);
    x.e.poll(seen);
  }
  REQUIRE(x.e.failed());
  CHECK(contains(x.e.failed()->words, "provider fails: Connection reset by peer (the fake's own words)"));
  long const reads = fake::reads;
  CHECK(!x.e.poll(seen));
  CHECK(fake::reads == reads);
}

TEST_CASE("a wrong key is an error at the writer, where the provider says so") {
  one x("plain");
  auto const& r = x.e.enroll(x.memory, sizeof x.memory, true);
  fabric_ticket t{.peer = 3};
  CHECK(x.e.write({x.self, r.base, r.key + 1}, x.of(x.memory, 8, r), 5, t) == posted::yes);
  one::seen seen;
  while (!x.e.failed()) x.e.poll(seen);
  CHECK(x.e.failed()->peer == 3);
}

TEST_CASE("when it is closed nothing of it is left to write to, and to close it again does nothing") {
  one x("registers");
  x.e.enroll(x.memory, 100, true);
  CHECK(x.e.region_of(x.memory, 1) != nullptr);
  x.e.close();
  CHECK(x.e.region_of(x.memory, 1) == nullptr);
  x.e.close();
}
