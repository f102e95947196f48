// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/bootstrap/tcp_server.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ringlet/bootstrap/tcp_store.hpp"
#include "store_contract.hpp"

// What strangers, foes and broken clients can do to the server.

namespace {

using namespace std::chrono_literals;
using namespace ringlet::detail::tcp;
using asio::ip::tcp;
using ringlet::tcp_server;
using ringlet::tcp_store;

// A client that says whatever it likes.
class raw {
 public:
  explicit raw(tcp_server const& server) { socket_.connect({asio::ip::address_v4::loopback(), server.port()}); }
  void send(std::string const& bytes) {
    asio::error_code refused;  // the server may have hung up by now
    asio::write(socket_, asio::buffer(bytes), refused);
  }
  // Everything until the server hangs up; "no end" when it does not.
  std::string rest() {
    std::string all;
    char byte;
    socket_.non_blocking(true);
    for (auto const end = in_ms(5000); std::chrono::steady_clock::now() < end;) {
      asio::error_code failed;
      if (socket_.read_some(asio::buffer(&byte, 1), failed) == 1) {
        all += byte;
      } else if (failed != asio::error::would_block) {
        return all;
      }
    }
    return "no end";
  }
  std::string answer() {
    std::string length(4, '\0');
    asio::read(socket_, asio::buffer(length));
    std::string body(number(length), '\0');
    asio::read(socket_, asio::buffer(body));
    return body;
  }
  void shut() { socket_.close(); }

 private:
  asio::io_context io_;
  tcp::socket socket_{io_};
};

std::string const hail = frame(greeting("job", ringlet::wire_version));

void check_serves(tcp_server const& server) {
  static int key = 0;
  tcp_store store("127.0.0.1", server.port(), "job", in_ms(10'000));
  std::string const name = "still serves " + std::to_string(++key);
  CHECK(store.set(name, "value"));
  CHECK(store.get(name, in_ms(1000)) == "value");
}

}  // namespace

TEST_CASE("a length that is too large is refused before anything is allocated or read") {
  tcp_server server({.job = "job"});
  SUBCASE("by a stranger") {
    for (std::uint32_t length : {longest_greeting + 1, longest_frame, 0x7fffffffu, 0xffffffffu}) {
      raw client(server);
      client.send(number(length));
      CHECK(client.rest() == "");
    }
  }
  SUBCASE("by a rank of the job") {
    for (std::uint32_t length : {longest_frame + 1, 0x7fffffffu, 0xffffffffu}) {
      raw client(server);
      client.send(hail);
      CHECK(client.answer() == "k");
      client.send(number(length));
      CHECK(client.rest() == "");
    }
  }
  check_serves(server);
}

TEST_CASE("nothing is served before the greeting") {
  tcp_server server({.job = "job"});
  for (std::string request : {"s" + number(3) + "keyvalue", "g" + number(0) + "key", std::string()}) {
    raw client(server);
    client.send(frame(request));
    CHECK(client.rest() == "");
  }
  tcp_store store("127.0.0.1", server.port(), "job", in_ms(10'000));
  CHECK(store.set("key", "first"));
}

TEST_CASE("C74 a wrong job is told so, and cut off") {
  tcp_server server({.job = "job"});
  raw client(server);
  client.send(frame(greeting("jib", ringlet::wire_version)) + frame("s" + number(3) + "keyvalue"));
  std::string const heard = client.rest();
  CHECK((heard == frame("j") || heard == ""));  // what it sent besides may make the system drop the answer
  tcp_store store("127.0.0.1", server.port(), "job", in_ms(10'000));
  CHECK(store.set("key", "first"));
}

TEST_CASE("another wire version is told which one is spoken here, once the job is right") {
  tcp_server server({.job = "job"});
  raw newer(server);
  newer.send(frame(greeting("job", ringlet::wire_version + 1)));
  CHECK(newer.rest() == frame("v" + number(ringlet::wire_version)));
  raw stranger(server);
  stranger.send(frame(greeting("other", ringlet::wire_version + 1)));
  CHECK(stranger.rest() == frame("j"));
}

TEST_CASE("requests that make no sense cut off the client that sends them") {
  tcp_server server({.job = "job"});
  for (std::string request : {std::string(), std::string("s"), std::string("s\0\0\0", 4), "s" + number(1),
                              "s" + number(0xffffffff) + "key", "x" + number(0) + "key", hail}) {
    raw client(server);
    client.send(hail);
    CHECK(client.answer() == "k");
    client.send(frame(request));
    CHECK(client.rest() == "");
  }
  check_serves(server);
}

TEST_CASE("a client that does not wait for its answer is cut off, and its get forgotten") {
  tcp_server server({.job = "job"});
  raw client(server);
  client.send(hail + frame("g" + number(60'000) + "never") + frame("s" + number(3) + "keyvalue"));
  CHECK(client.rest() == frame("k"));
  tcp_store store("127.0.0.1", server.port(), "job", in_ms(10'000));
  CHECK(store.set("never", "after all"));
  CHECK(store.set("key", "first"));
}

TEST_CASE("clients that stop half way, and stay, keep nobody waiting") {
  tcp_server server({.job = "job", .linger = 50ms});
  std::vector<std::unique_ptr<raw>> idle;
  std::string const whole = hail + frame("s" + number(3) + "keyvalue");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    idle.push_back(std::make_unique<raw>(server));
    idle.back()->send(whole.substr(0, length));
  }
  check_serves(server);
}

TEST_CASE("clients that stop half way, and leave, are forgotten") {
  tcp_server server({.job = "job"});
  std::string const whole = hail + frame("g" + number(60'000) + "never");
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    raw client(server);
    client.send(whole.substr(0, length));
    client.shut();
  }
  check_serves(server);
}

TEST_CASE("garbage of every kind") {
  tcp_server server({.job = "job"});
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    std::string bytes(random() % 200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    raw client(server);
    switch (i % 3) {
      case 0: client.send(bytes); break;                // no frame
      case 1: client.send(frame(bytes)); break;         // no greeting
      case 2: client.send(hail + frame(bytes)); break;  // no request
    }
  }
  check_serves(server);
}

TEST_CASE("secrets are compared whole") {
  CHECK(same_secret("", ""));
  CHECK(same_secret("abc", "abc"));
  CHECK_FALSE(same_secret("abc", ""));
  CHECK_FALSE(same_secret("", "abc"));
  CHECK_FALSE(same_secret("abd", "abc"));
  CHECK_FALSE(same_secret("abcabc", "abc"));
  CHECK_FALSE(same_secret("ab", "abc"));
  CHECK_FALSE(same_secret(std::string("\0", 1), ""));
}

TEST_CASE("numbers are four bytes, lowest first") {
  CHECK(number(0x01020304u) == "\x04\x03\x02\x01");
  CHECK(number(number(0xfffefdfcu)) == 0xfffefdfcu);
}

TEST_CASE("C77 a thousand servers and clients leave no file open") {
  asio::io_context io;
  auto const next_fd = [] {
    int const fd = ::dup(0);
    ::close(fd);
    return fd;
  };
  int const before = next_fd();
  for (int i = 0; i < 1000; ++i) {
    tcp_server server({.job = "job"});
    tcp_store store("127.0.0.1", server.port(), "job", in_ms(10'000));
  }
  CHECK(next_fd() == before);
}
