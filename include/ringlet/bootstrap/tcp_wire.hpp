// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <fcntl.h>

#include <asio/error_code.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ringlet/error.hpp"

// What tcp_server and tcp_store say to each other. Everything travels in frames: a length of 4 bytes, lowest first,
// then so many bytes. The length is checked before memory is taken for it.
//
//   client                                     server
//   "ringlet\n" version(4) job                 'k'  or  'v' version(4)  or  'j'; then it hangs up
//   's' key_size(4) key value                  'y'  or  'n' (the key was there)
//   'g' milliseconds(4) key                    'y' value  or  'n' (nobody has set it in that time)
//
// A client sends its next request once it has the answer to the last.
namespace ringlet::detail::tcp {

inline constexpr std::string_view magic = "ringlet\n";

/// The longest frame: a request with its key and value.
inline constexpr std::uint32_t longest_frame = 4 << 20;
/// The longest frame that a server takes from a client that has not said the right job yet.
inline constexpr std::uint32_t longest_greeting = 512;
/// The longest name of a job; it must fit the greeting.
inline constexpr std::size_t longest_job = 256;

inline std::string number(std::uint32_t n) {
  std::string bytes(4, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(n & 255);
    n >>= 8;
  }
  return bytes;
}
/// Reads four bytes; `at + 4` must not be beyond the end.
inline std::uint32_t number(std::string_view bytes, std::size_t at = 0) {
  std::uint32_t n = 0;
  for (std::size_t i = 4; i-- > 0;) n = n << 8 | static_cast<unsigned char>(bytes[at + i]);
  return n;
}

inline std::string frame(std::string const& body) { return number(static_cast<std::uint32_t>(body.size())) + body; }

inline std::string greeting(std::string_view job, std::uint32_t version) {
  return std::string(magic) + number(version) + std::string(job);
}

/// Compares in a time that depends on the lengths only, so that a stranger learns nothing from how soon it is refused.
inline bool same_secret(std::string_view given, std::string_view expected) {
  unsigned differ = given.size() != expected.size();
  for (std::size_t i = 0; i < given.size(); ++i) {
    differ |= static_cast<unsigned char>(given[i]) ^
              static_cast<unsigned char>(expected.empty() ? 0 : expected[i % expected.size()]);
  }
  return differ == 0;
}

/// Programs that this process starts shall not hold its sockets open.
template <class Socket>
void close_on_exec(Socket& socket) {
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
}

inline std::string name(std::string const& host, std::uint16_t port) {
  return (host.find(':') == std::string::npos ? host : '[' + host + ']') + ':' + std::to_string(port);
}

inline void check_job(std::string_view job) {
  if (job.size() > longest_job) {
    throw error(errc::invalid_argument, "the job's name has " + std::to_string(job.size()) + " bytes; at most " +
                                            std::to_string(longest_job) + " are possible");
  }
}

/// The addresses of a host, at least one.
inline auto resolve(asio::io_context& io, std::string const& host, std::uint16_t port) {
  asio::error_code failed;
  auto found =
      asio::ip::tcp::resolver(io).resolve(host, std::to_string(port), asio::ip::tcp::resolver::numeric_service, failed);
  if (failed || found.empty()) {
    throw error(errc::bootstrap, "the host '" + host + "' has no address: " + failed.message());
  }
  return found;
}

}  // namespace ringlet::detail::tcp
