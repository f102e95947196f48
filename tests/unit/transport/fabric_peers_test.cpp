// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/fabric_peers.hpp"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../../ranks.hpp"

using namespace tests;
using ringlet::fabric_peers;
using letter = fabric_peers::letter;

namespace {

ringlet::time_point in(std::chrono::milliseconds t) { return std::chrono::steady_clock::now() + t; }
sockaddr_in here() {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return a;
}
std::unique_ptr<fabric_peers> make(int rank, int size) {
  sockaddr_in const a = here();
  return std::make_unique<fabric_peers>(rank, size, reinterpret_cast<sockaddr const&>(a));
}
void listen_until(fabric_peers& p, auto&& done, auto&& f) {
  for (auto const until = in(5s); !done() && std::chrono::steady_clock::now() < until;) p.listen(f, 10ms);
  expect(done(), "it has not come");
}
auto const nothing = [](int, letter const&) {};

}  // namespace

TEST_CASE("what one says the others hear; that a process ends, too, but not as if it had left") {
  CHECK(launch(3, [](self who) {
          auto const made = make(who.rank, 3);
          fabric_peers& p = *made;
          p.connect(ringlet::exchange(who, "doors", p.own(), in(5s)), 42, in(5s));
          if (who.rank == 0) {
            letter l;
            l.what = letter::kind::fault, l.why = ringlet::fault(errc::aborted, 0, "enough");
            p.tell_all(l);
            l.what = letter::kind::left, l.finished = 7;
            p.tell_all(l);
          }
          if (who.rank == 1) {
            who.store.get("go", in(5s));
            ::_exit(0);  // without a word
          }
          if (who.rank == 2) {
            std::string words;
            listen_until(
                p, [&] { return p.left(0); },
                [&](int from, letter const& l) {
                  expect(from == 0, "from whom");
                  if (l.what == letter::kind::fault) words = l.why.words;
                });
            expect(words == "enough" && p.finished(0) == 7 && !p.left(1) && !p.ended(1), "what was said");
            who.store.set("go", "");
            listen_until(
                p, [&] { return p.ended(1); }, nothing);
            expect(!p.left(1), "it said nothing");
            p.listen(nothing);  // an end is news once
          }
        }) == 0);
}

TEST_CASE("a rank that never comes is named at the deadline, and one that cannot be reached at once") {
  auto first = make(0, 2), gone = make(1, 2);
  expect(error_of([&] {
           first->connect({first->own(), gone->own()}, 42, in(50ms));
         }),
         errc::bootstrap, "rank 1 did not connect to rank 0");
  std::string const door = first->own();
  first.reset();
  auto const e = error_of([&] { gone->connect({door, gone->own()}, 42, in(5s)); });
  expect(e, errc::bootstrap, "rank 0 at 127.0.0.1 port ");
  CHECK(contains(e->what(), "cannot be reached from rank 1: Connection refused"));
}

TEST_CASE("who does not know the token is sent away, and does not keep others from coming") {
  auto const a = make(0, 2), b = make(1, 2);
  std::vector<std::string> const doors{a->own(), b->own()};
  int const stranger = ::socket(AF_INET, SOCK_STREAM, 0), silent = ::socket(AF_INET, SOCK_STREAM, 0);
  for (int s : {stranger, silent})
    CHECK(::connect(s, reinterpret_cast<sockaddr const*>(doors[0].data()), static_cast<socklen_t>(doors[0].size())) ==
          0);
  ringlet::detail::knock const wrong{41, 1};
  CHECK(::send(stranger, &wrong, sizeof wrong, 0) == sizeof wrong);
  std::thread other([&] { b->connect(doors, 42, in(5s)); });
  a->connect(doors, 42, in(5s));
  other.join();
  ::close(stranger), ::close(silent);
  letter l;
  l.what = letter::kind::left, l.finished = 3;
  b->tell_all(l);
  listen_until(
      *a, [&] { return a->left(1); }, nothing);
  CHECK(a->finished(1) == 3);
}
