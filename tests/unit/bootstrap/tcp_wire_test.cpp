// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/bootstrap/tcp_wire.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>

#include "ringlet/bootstrap/tcp_server.hpp"
#include "ringlet/bootstrap/tcp_store.hpp"
#include "store_contract.hpp"

// The largest piece of memory that anything in this program has asked for.
static std::atomic<std::size_t> largest_taken{0};

void* operator new(std::size_t n) {
  for (std::size_t before = largest_taken; before < n && !largest_taken.compare_exchange_weak(before, n);) {
  }
  if (void* const p = std::malloc(n)) return p;
  throw std::bad_alloc();
}
// Inlined, g++ takes them for the wrong end of memory that came from new.
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

using namespace ringlet::detail::tcp;
using namespace std::chrono_literals;
using asio::ip::tcp;
using ringlet::errc;

// A server that greets its one client as it should, answers its first request with these bytes, and hangs up.
class liar {
 public:
  explicit liar(std::string bytes)
      : thread_([this, bytes] {
          tcp::socket client = listens_.accept();
          take(client);
          asio::write(client, asio::buffer(frame("k")));
          take(client);
          asio::write(client, asio::buffer(bytes));
        }) {}
  ~liar() { thread_.join(); }
  std::uint16_t port() const { return listens_.local_endpoint().port(); }

 private:
  static void take(tcp::socket& client) {
    std::string length(4, '\0');
    asio::read(client, asio::buffer(length));
    std::string body(number(length), '\0');
    asio::read(client, asio::buffer(body));
  }
  asio::io_context io_;
  tcp::acceptor listens_{io_, {asio::ip::address_v4::loopback(), 0}};
  std::thread thread_;
};

// The words with which a store refuses an answer of these bytes.
std::string refusal_of(std::string const& answer) {
  liar server(answer);
  ringlet::tcp_store store("127.0.0.1", server.port(), "job", in_ms(10'000));
  try {
    store.get("key", in_ms(10'000));
  } catch (ringlet::error const& e) {
    CHECK(e.why() == errc::peer_lost);
    return e.what();
  }
  return "it was taken";
}

}  // namespace

TEST_CASE("a frame is its length, lowest byte first, and its bytes") {
  using namespace std::string_literals;
  CHECK(frame("") == "\0\0\0\0"s);
  CHECK(frame("abc") == "\3\0\0\0abc"s);
  CHECK(frame(std::string(0x10203, 'x')) == "\3\2\1\0"s + std::string(0x10203, 'x'));
}

TEST_CASE("numbers come back as they went, wherever they stand") {
  for (std::uint32_t n : {0u, 1u, 127u, 128u, 255u, 256u, 0x80000000u, 0xfefdfcfbu, 0xffffffffu}) {
    CHECK(number(n).size() == 4);
    CHECK(number(number(n)) == n);
    CHECK(number("before" + number(n) + "after", 6) == n);
  }
}

TEST_CASE("a greeting is the magic, the version and the job, and the longest job's fits its bound") {
  using namespace std::string_literals;
  CHECK(greeting("job", 0x102) == "ringlet\n\2\1\0\0job"s);
  CHECK(greeting(std::string(longest_job, 'j'), UINT32_MAX).size() <= longest_greeting);
  CHECK_NOTHROW(check_job(std::string(longest_job, 'j')));
  CHECK_THROWS_WITH_AS(check_job(std::string(longest_job + 1, 'j')), doctest::Contains("257 bytes"), ringlet::error);
}

TEST_CASE("an address with colons stands in brackets") {
  CHECK(name("127.0.0.1", 80) == "127.0.0.1:80");
  CHECK(name("::1", 80) == "[::1]:80");
}

TEST_CASE("an answer of the longest length is taken") {
  liar server(frame('y' + std::string(longest_frame - 1, 'x')));
  ringlet::tcp_store store("127.0.0.1", server.port(), "job", in_ms(10'000));
  CHECK(store.get("key", in_ms(10'000)).size() == longest_frame - 1);
}

TEST_CASE("a length is checked before memory is taken for it") {
  SUBCASE("by a client") {
    for (std::uint32_t length : {longest_frame + 1, 0x7fffffffu, 0xffffffffu}) {
      largest_taken = 0;
      CHECK(refusal_of(number(length)).find("it sent what is no answer") != std::string::npos);
      REQUIRE(largest_taken < longest_frame / 2);
    }
  }
  SUBCASE("by a server") {
    for (std::uint32_t length : {longest_frame, 0xffffffffu}) {
      ringlet::tcp_server server({.linger = 0ms});
      largest_taken = 0;
      asio::io_context io;
      tcp::socket stranger(io);
      stranger.connect({asio::ip::address_v4::loopback(), server.port()});
      asio::write(stranger, asio::buffer(number(length)));
      char byte;
      asio::error_code hung_up;
      asio::read(stranger, asio::buffer(&byte, 1), hung_up);
      CHECK(hung_up == asio::error::eof);
      REQUIRE(largest_taken < longest_frame / 2);
    }
  }
}

TEST_CASE("an answer that is cut short, anywhere, is none") {
  std::string const whole = frame("yvalue");
  for (std::size_t length = 0; length < whole.size(); ++length)
    CHECK(refusal_of(whole.substr(0, length)).find("it has ended") != std::string::npos);
  CHECK(refusal_of(whole) == "it was taken");
}

TEST_CASE("an answer of nothing, or of a kind that there is not, is none") {
  for (std::string body : {"", "x", "kvalue"})
    CHECK(refusal_of(frame(body)).find("it sent what is no answer") != std::string::npos);
}
