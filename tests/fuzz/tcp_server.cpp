// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A client that sends anything at all: it is served or dropped, and the server goes on serving the others.
#include "ringlet/bootstrap/tcp_server.hpp"

#include <array>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "ringlet/bootstrap/tcp_store.hpp"
#include "ringlet/bootstrap/tcp_wire.hpp"
#include "ringlet/config.hpp"

namespace {

ringlet::time_point soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(5); }

}  // namespace

// The input: whether to greet as a friend, and what to say then.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) return 0;
  static ringlet::tcp_server server({.job = "fuzz"});
  static ringlet::tcp_store good("127.0.0.1", server.port(), "fuzz", soon());
  static std::uint64_t inputs = 0;

  std::string words(reinterpret_cast<char const*>(data + 1), size - 1);
  using namespace ringlet::detail::tcp;
  if (data[0] % 2 == 1) words = frame(greeting("fuzz", ringlet::wire_version)) + words;
  if (data[0] % 4 == 3) words = words.substr(0, words.size() - size + 1) + frame(words.substr(words.size() - size + 1));

  asio::io_context io;
  asio::ip::tcp::socket bad(io);
  asio::error_code failed;
  bad.connect({asio::ip::make_address("127.0.0.1"), server.port()});
  asio::write(bad, asio::buffer(words), failed);
  bad.shutdown(asio::socket_base::shutdown_send, failed);
  // A get with a long patience ends when its client has nothing more to say, too.
  for (std::array<char, 256> answer; !failed;) bad.read_some(asio::buffer(answer), failed);

  std::string const key = "good/" + std::to_string(++inputs % 64), value = std::to_string(inputs % 64);
  good.set(key, value);
  if (good.get(key, soon()) != value) __builtin_trap();
  return 0;
}
