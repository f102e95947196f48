// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A server that answers anything at all: the client ends with values or with an error, and soon.
#include "ringlet/bootstrap/tcp_store.hpp"

#include <array>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

#include "ringlet/bootstrap/tcp_wire.hpp"
#include "ringlet/error.hpp"

// The input: whether to accept the greeting, and what to answer then.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) return 0;
  using asio::ip::tcp;
  static asio::io_context io;
  static tcp::acceptor acceptor(io, {asio::ip::make_address("127.0.0.1"), 0});

  std::string words(reinterpret_cast<char const*>(data + 1), size - 1);
  using ringlet::detail::tcp::frame;
  if (data[0] % 4 == 3) words = frame(words);
  if (data[0] % 2 == 1) words = frame("k") + words;

  std::thread server([&words] {
    asio::error_code failed;
    tcp::socket client = acceptor.accept();
    asio::write(client, asio::buffer(words), failed);
    client.shutdown(asio::socket_base::shutdown_send, failed);
    for (std::array<char, 256> request; !failed;) client.read_some(asio::buffer(request), failed);
  });
  try {
    auto const soon = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    ringlet::tcp_store store("127.0.0.1", acceptor.local_endpoint().port(), "fuzz", soon);
    store.set("key", "value");
    store.get("key", soon);
  } catch (ringlet::error const& e) {
    if (e.code().message() == "unknown") __builtin_trap();
  }
  server.join();
  return 0;
}
