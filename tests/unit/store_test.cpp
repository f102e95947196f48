// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/store.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <string_view>

#include "ringlet/bootstrap/roster.hpp"

namespace {

// The archetype: what the contract asks for, and nothing else.
struct archetype {
  archetype() = default;
  archetype(archetype const&) = delete;
  archetype& operator=(archetype const&) = delete;

  bool set(std::string_view key, std::string_view value) { return entries.emplace(key, value).second; }
  std::string get(std::string_view key, ringlet::time_point) {
    if (auto found = entries.find(key); found != entries.end()) return found->second;
    throw ringlet::error(ringlet::errc::timed_out, "nobody has set the key '" + std::string(key) + "'");
  }

 private:
  std::map<std::string, std::string, std::less<>> entries;
};

struct without_get {
  bool set(std::string_view, std::string_view);
};
struct forgets_whether_it_set {
  void set(std::string_view, std::string_view);
  std::string get(std::string_view, ringlet::time_point);
};
struct waits_for_ever {
  bool set(std::string_view, std::string_view);
  std::string get(std::string_view);
};

static_assert(ringlet::store<archetype>);
static_assert(ringlet::store<ringlet::prefixed<archetype>>);
static_assert(ringlet::store<ringlet::prefixed<ringlet::prefixed<archetype>>>);
static_assert(!ringlet::store<without_get>);
static_assert(!ringlet::store<forgets_whether_it_set>);
static_assert(!ringlet::store<waits_for_ever>);
static_assert(!ringlet::store<int>);

constexpr ringlet::time_point now_or_never{};

}  // namespace

TEST_CASE("a prefix keeps two users of one store apart") {
  archetype store;
  ringlet::prefixed first(store, "first/"), second(store, "second/");
  CHECK(first.set("key", "1"));
  CHECK(second.set("key", "2"));
  CHECK_FALSE(first.set("key", "3"));
  CHECK(first.get("key", now_or_never) == "1");
  CHECK(second.get("key", now_or_never) == "2");
  CHECK(store.get("first/key", now_or_never) == "1");
}

TEST_CASE("prefixes nest, the outermost store's prefix first") {
  archetype store;
  ringlet::prefixed outer(store, "a/");
  ringlet::prefixed inner(outer, "b/");
  CHECK(inner.set("key", "value"));
  CHECK(store.get("a/b/key", now_or_never) == "value");
}

TEST_CASE("an error names the whole key") {
  archetype store;
  ringlet::prefixed mine(store, "job/");
  CHECK_THROWS_WITH_AS(mine.get("key", now_or_never), doctest::Contains("'job/key'"), ringlet::error);
}

TEST_CASE("agree and exchange need no more of a store than the contract says") {
  archetype store;
  ringlet::bootstrap<archetype> const alone{0, 1, store};
  ringlet::agree(alone, "", now_or_never);
  CHECK(ringlet::exchange(alone, "name", "bytes", now_or_never) == std::vector<std::string>{"bytes"});
}
