// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/hand_over.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "../../ranks.hpp"

using namespace tests;
using ringlet::hand_over;
using ringlet::memory_file;

namespace {

ringlet::time_point in(std::chrono::milliseconds t) { return std::chrono::steady_clock::now() + t; }

// A meeting in which ranks know each other's values already: `exchange` gives what the test says.
struct scripted {
  int me;
  std::vector<std::string> values;
  int rank() const { return me; }
  int size() const { return static_cast<int>(values.size()); }
  std::uint64_t token() const { return 42; }
  std::vector<std::string> exchange(std::string_view, std::string const& mine, ringlet::time_point) {
    auto all = values;
    all[static_cast<std::size_t>(me)] = mine;
    return all;
  }
};

// A file that holds the rank's number.
memory_file numbered(int rank) {
  memory_file file{""};
  std::size_t const at = file.grow(4096);
  ringlet::mapping const m(file.file(), at, 4096);
  m.data()[0] = static_cast<std::byte>(rank);
  return file;
}
int number(ringlet::descriptor const& file) { return static_cast<int>(ringlet::mapping(file, 0, 4096).data()[0]); }

}  // namespace

TEST_CASE("every rank gets every other's file, as threads and as processes") {
  for (auto as : {ranks_as::threads, ranks_as::processes})
    CHECK(launch(4,
                 [&](self who) {
                   ringlet::detail::agreed_meeting m(who, "", in(20s));
                   memory_file const mine = numbered(who.rank);
                   auto const all = hand_over(m, "door", mine.file(), in(20s));
                   for (int peer = 0; peer < 4; ++peer) {
                     auto const& its = all[static_cast<std::size_t>(peer)];
                     expect(peer == who.rank ? !its.file : number(its.file) == peer,
                            "the file of rank " + std::to_string(peer));
                     expect(static_cast<bool>(its.life) == (as == ranks_as::processes && peer != who.rank),
                            "who can be watched");
                   }
                   ringlet::exchange(who, "leave together", "", in(20s));
                 },
                 {.as = as}) == 0);
}

TEST_CASE("the end of a peer's process shows, and only then") {
  CHECK(launch(2, [](self who) {
          ringlet::detail::agreed_meeting m(who, "", in(20s));
          memory_file const mine = numbered(who.rank);
          auto const all = hand_over(m, "door", mine.file(), in(20s));
          if (who.rank == 1) {
            who.store.get("go", in(20s));
            return;
          }
          pollfd life{all[1].life.get(), POLLIN, 0};
          expect(::poll(&life, 1, 0) == 0, "rank 1 is alive");
          who.store.set("go", "");
          expect(::poll(&life, 1, 20'000) == 1, "rank 1 has ended");
        }) == 0);
}

TEST_CASE("a stranger at the door gets nothing, and holds up nobody") {
  using namespace ringlet::detail;
  listener door(4);
  ringlet::descriptor const wrong = connect_to(door.name(), {41, 1}), mute = connect_to(door.name(), {42, 2});
  auto const [peer, rank] = door.accept(42, in(5s));
  CHECK(peer);
  CHECK(rank == 2);
  auto const nobody = door.accept(42, in(50ms));
  CHECK_FALSE(nobody.first);
  CHECK_FALSE(receive_descriptor(wrong));
}

TEST_CASE("a rank that does not come is named at the deadline") {
  ringlet::detail::listener its_door(4);  // lets rank 0 in, but hands over nothing
  scripted m{0, {"", its_door.name()}};
  memory_file const mine = numbered(0);
  auto const begin = std::chrono::steady_clock::now();
  auto const e = error_of([&] { hand_over(m, "door", mine.file(), in(100ms)); });
  REQUIRE(e);
  CHECK(e->why() == errc::timed_out);
  CHECK(e->peer() == 1);
  CHECK(contains(e->what(), "rank 1 did not hand over its memory to rank 0"));
  CHECK(std::chrono::steady_clock::now() - begin < 3s);
}

TEST_CASE("C62: a rank of another machine is found out by trying, not by its name") {
  scripted m{0, {"", std::string("\0no such door", 13)}};
  memory_file const mine = numbered(0);
  auto const e = error_of([&] { hand_over(m, "door", mine.file(), in(5s)); });
  REQUIRE(e);
  CHECK(e->why() == errc::unsupported);
  CHECK(e->peer() == 1);
  CHECK(contains(e->what(), "rank 1 cannot be reached from rank 0 by a local socket"));
  CHECK(contains(e->what(), "use another transport"));
}

TEST_CASE("no descriptor is left open when it fails") {
  auto count = [] {
    int open = 0;
    for (int fd = 0; fd < 200; ++fd) open += ::fcntl(fd, F_GETFD) >= 0;
    return open;
  };
  int const before = count();
  for (int i = 0; i < 5; ++i) {
    ringlet::detail::listener its_door(4);
    scripted m{0, {"", its_door.name(), std::string("\0no such door", 13)}};
    memory_file const mine = numbered(0);
    CHECK(error_of([&] { hand_over(m, "door", mine.file(), in(10ms)); }).has_value());
  }
  CHECK(count() == before);
}
