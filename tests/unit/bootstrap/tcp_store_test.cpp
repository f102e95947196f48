// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/bootstrap/tcp_store.hpp"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ringlet/bootstrap/roster.hpp"
#include "ringlet/bootstrap/tcp_server.hpp"
#include "store_contract.hpp"

static_assert(ringlet::store<ringlet::tcp_store>);

namespace {

using namespace std::chrono_literals;
using ringlet::errc;
using ringlet::tcp_options;
using ringlet::tcp_server;
using ringlet::tcp_store;

std::string const loopback = "127.0.0.1";

// Whether this machine itself can be reached by IPv6.
bool has_ipv6() {
  int const s = ::socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 here{};
  here.sin6_family = AF_INET6, here.sin6_addr = in6addr_loopback;
  bool const bound = ::bind(s, reinterpret_cast<sockaddr*>(&here), sizeof here) == 0;
  ::close(s);
  return bound;
}
// A port that was free a moment ago.
std::uint16_t free_port() { return tcp_server({.linger = 0ms}).port(); }

template <class F>
std::pair<errc, std::string> failure_of(F&& f) {
  try {
    f();
  } catch (ringlet::error const& e) {
    return {e.why(), e.what()};
  }
  return {};
}

bool contains(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("tcp_store keeps the contract of a store") {
  tcp_server server({.job = "contract"});
  check_store_contract([&](auto&& f) {
    tcp_store store(loopback, server.port(), "contract", in_ms(10'000));
    f(store);
  });
}

TEST_CASE("a client may come before the server") {
  auto const port = free_port();
  std::optional<tcp_server> server;
  std::thread late([&] {
    std::this_thread::sleep_for(200ms);
    server.emplace(tcp_options{.port = port, .job = "a"});
  });
  tcp_store store(loopback, port, "a", in_ms(20'000));
  CHECK(store.set("key", "value"));
  late.join();
}

TEST_CASE("where nobody listens, connecting fails at the deadline, with address, port and what to do") {
  auto const port = free_port();
  auto const start = std::chrono::steady_clock::now();
  auto const [why, words] = failure_of([&] { tcp_store(loopback, port, "a", in_ms(200)); });
  CHECK(std::chrono::steady_clock::now() - start < 3s);
  CHECK(why == errc::bootstrap);
  CHECK(contains(words, "127.0.0.1:" + std::to_string(port)));
  CHECK(contains(words, "rank 0"));
}

TEST_CASE("C71 a host name that is 127.0.1.1 works on one machine, and for several the words say what to set") {
  tcp_server server({.address = "127.0.1.1", .job = "a"});
  tcp_store store("127.0.1.1", server.port(), "a", in_ms(10'000));
  CHECK(store.set("key", "value"));
  auto const port = free_port();
  auto const [why, words] = failure_of([&] { tcp_store("127.0.1.1", port, "a", in_ms(100)); });
  CHECK(contains(words, "set RINGLET_ADDRESS"));
}

TEST_CASE("C72 one server, a client by IPv4 and a client by IPv6") {
  if (!has_ipv6()) {
    MESSAGE("skipped: no IPv6 here");
    return;
  }
  tcp_server server({.address = "::", .job = "a"});
  tcp_store by4(loopback, server.port(), "a", in_ms(10'000)), by6("::1", server.port(), "a", in_ms(10'000));
  CHECK(by4.set("from 4", "4"));
  CHECK(by6.get("from 4", in_ms(1000)) == "4");
  CHECK(by6.set("from 6", "6"));
  CHECK(by4.get("from 6", in_ms(1000)) == "6");
}

TEST_CASE("C72 a host name with several addresses: each is tried") {
  tcp_server server({.address = "localhost", .job = "a"});
  tcp_store store("localhost", server.port(), "a", in_ms(10'000));
  CHECK(store.set("key", "value"));
}

TEST_CASE("C74 a port in use is an error with address, port, and how to find the holder") {
  tcp_server first({.job = "a"});
  auto const [why, words] = failure_of([&] { tcp_server({.port = first.port(), .job = "b"}); });
  CHECK(why == errc::bootstrap);
  CHECK(contains(words, "127.0.0.1:" + std::to_string(first.port())));
  CHECK(contains(words, "ss -ltnp"));
}

TEST_CASE("C74 a rank of another job is refused, in words, and costs the job nothing") {
  tcp_server server({.job = "mine"});
  for (std::string job : {"", "min", "mine ", "nime", "yours"}) {
    auto const [why, words] = failure_of([&] { tcp_store(loopback, server.port(), job, in_ms(10'000)); });
    CHECK(why == errc::mismatch);
    CHECK(contains(words, "another job than '" + job + "'"));
  }
  tcp_store store(loopback, server.port(), "mine", in_ms(10'000));
  CHECK(store.set("key", "value"));
}

TEST_CASE("C74 what listens there is no store of ringlet") {
  asio::io_context io;
  asio::ip::tcp::acceptor other(io, {asio::ip::address_v4::loopback(), 0});
  auto const port = other.local_endpoint().port();
  SUBCASE("it speaks something else") {
    std::thread speaks([&] {
      auto client = other.accept();
      asio::write(client, asio::buffer(std::string("HTTP/1.1 400 Bad Request\r\n\r\n")));
    });
    auto const [why, words] = failure_of([&] { tcp_store(loopback, port, "a", in_ms(5000)); });
    speaks.join();
    CHECK(why == errc::bootstrap);
    CHECK(contains(words, "no store of ringlet"));
  }
  SUBCASE("it says nothing") {
    auto const start = std::chrono::steady_clock::now();
    auto const [why, words] = failure_of([&] { tcp_store(loopback, port, "a", in_ms(200)); });
    CHECK(std::chrono::steady_clock::now() - start < 3s);
    CHECK(contains(words, "no store of ringlet"));
  }
}

TEST_CASE("a host that does not exist") {
  auto const [why, words] = failure_of([&] { tcp_store("no-such-host.invalid", 1, "a", in_ms(200)); });
  CHECK(why == errc::bootstrap);
  CHECK(contains(words, "no-such-host.invalid"));
}

TEST_CASE("an address that is not this machine's cannot be listened at") {
  auto const [why, words] = failure_of([&] { tcp_server({.address = "192.0.2.77", .job = "a"}); });
  CHECK(why == errc::bootstrap);
  CHECK(contains(words, "192.0.2.77"));
}

TEST_CASE("a waiting get keeps no other client waiting") {
  tcp_server server({.job = "a"});
  std::thread waits([&] {
    tcp_store store(loopback, server.port(), "a", in_ms(10'000));
    store.get("last", in_ms(20'000));
  });
  tcp_store store(loopback, server.port(), "a", in_ms(10'000));
  for (int i = 0; i < 1000; ++i) REQUIRE(store.set(std::to_string(i), ""));
  CHECK(store.set("last", ""));
  waits.join();
}

TEST_CASE("a client that is killed while it waits hurts nobody") {
  tcp_server server({.job = "a"});
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  pid_t const child = ::fork();
  if (child == 0) {  // makes no use of the parent's server, whose thread is not here
    tcp_store store(loopback, server.port(), "a", in_ms(10'000));
    store.set("child was here", "");
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    store.get("never", in_ms(100'000));
    ::_exit(0);
  }
  char byte;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  tcp_store store(loopback, server.port(), "a", in_ms(10'000));
  CHECK(store.get("child was here", in_ms(1000)) == "");
  CHECK(store.set("never", "after all"));
}

TEST_CASE("requests that are too long are refused before they are sent") {
  tcp_server server({.job = "a"});
  tcp_store store(loopback, server.port(), "a", in_ms(10'000));
  auto const [why, words] = failure_of([&] { store.set("key", std::string(5 << 20, 'x')); });
  CHECK(why == errc::invalid_argument);
  CHECK(store.set("key", std::string(4 << 20, 'x').substr(8)));  // 's', a length and "key" make 8
  CHECK(store.get("key", in_ms(5000)).size() == (4 << 20) - 8);
  CHECK(failure_of([&] { tcp_server({.job = std::string(257, 'j')}); }).first == errc::invalid_argument);
}

TEST_CASE("when the server ends, a waiting get fails in bounded time, and later calls too") {
  std::optional<tcp_server> server(std::in_place, tcp_options{.job = "a", .linger = 100ms});
  tcp_store store(loopback, server->port(), "a", in_ms(10'000));
  std::thread ends([&] {
    std::this_thread::sleep_for(50ms);
    server.reset();
  });
  auto const start = std::chrono::steady_clock::now();
  auto const [why, words] = failure_of([&] { store.get("never", in_ms(60'000)); });
  ends.join();
  CHECK(std::chrono::steady_clock::now() - start < 5s);
  CHECK(why == errc::peer_lost);
  CHECK(contains(words, "rank 0"));
  CHECK(failure_of([&] { store.set("key", ""); }).first == errc::peer_lost);
}

TEST_CASE("an ending server waits for clients that have yet to read, and no longer than they need") {
  std::optional<tcp_server> server(std::in_place, tcp_options{.job = "a", .linger = 20s});
  auto const port = server->port();
  std::string got;
  std::optional<tcp_store> last(std::in_place, loopback, port, "a", in_ms(10'000));
  last->set("key", "value");
  std::thread reader([&] {
    std::this_thread::sleep_for(200ms);
    got = last->get("key", in_ms(1000));
    last.reset();
  });
  auto const start = std::chrono::steady_clock::now();
  server.reset();
  auto const took = std::chrono::steady_clock::now() - start;
  reader.join();
  CHECK(got == "value");
  CHECK(took >= 150ms);
  CHECK(took < 10s);
}

TEST_CASE("an ending server with a client that stays ends after its linger") {
  std::optional<tcp_server> server(std::in_place, tcp_options{.job = "a", .linger = 100ms});
  tcp_store stays(loopback, server->port(), "a", in_ms(10'000));
  auto const start = std::chrono::steady_clock::now();
  server.reset();
  CHECK(std::chrono::steady_clock::now() - start < 5s);
}

TEST_CASE("128 ranks agree and exchange over TCP") {
  constexpr int size = 128;
  tcp_server server({.job = "a"});
  std::vector<std::thread> threads;
  std::atomic<int> well = 0;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      tcp_store store(loopback, server.port(), "a", in_ms(60'000));
      ringlet::bootstrap const self{rank, size, store};
      ringlet::agree(self, "slots=8", in_ms(60'000));
      auto const all = ringlet::exchange(self, "x", std::string(1000, 'a') + std::to_string(rank), in_ms(60'000));
      well += all[127] == std::string(1000, 'a') + "127";
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(well == size);
}
