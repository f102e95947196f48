// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "ringlet/bootstrap/tcp_wire.hpp"
#include "ringlet/clock.hpp"
#include "ringlet/config.hpp"
#include "ringlet/store.hpp"

namespace ringlet {

/// A store over TCP: a client of the `tcp_server` that one rank runs. That rank is a client too. One thread at a
/// time may use one object; a thread that waits in `get` keeps no other client waiting. Needs Asio.
///
/// A request that the server does not answer fails 5 s after its deadline. After such a failure, or when the server
/// has ended, every later request fails too.
class tcp_store {
 public:
  /// Connects, and tries again until the deadline while nobody listens there: the server may not be up yet.
  /// @param host address or name of the server's machine. All its addresses are tried, IPv4 and IPv6.
  /// @param port the server's port
  /// @param job the name of the job, the same as the server's
  /// @param deadline when to give up
  /// @throws error(errc::mismatch) when the server is of another job or another wire version
  /// @throws error(errc::bootstrap) when there is no server, or what is there is none of ringlet's
  tcp_store(std::string host, std::uint16_t port, std::string_view job, time_point deadline)
      : where_(detail::tcp::name(host, port)) {
    detail::tcp::check_job(job);
    connect(host, port, deadline);
    greet(job, deadline);
  }
  tcp_store(tcp_store const&) = delete;
  tcp_store& operator=(tcp_store const&) = delete;

  /// As the contract of `store` says. Key and value together may have 4 MiB less 5 bytes.
  bool set(std::string_view key, std::string_view value) {
    return ask('s' + detail::tcp::number(static_cast<std::uint32_t>(key.size())) + std::string(key) +
                   std::string(value),
               clock::now())
        .has_value();
  }

  /// As the contract of `store` says.
  std::string get(std::string_view key, time_point deadline) {
    using namespace std::chrono;
    auto const left = ceil<milliseconds>(deadline - clock::now()).count();
    auto const patience = static_cast<std::uint32_t>(std::clamp<decltype(left)>(left, 0, UINT32_MAX));
    auto value = ask('g' + detail::tcp::number(patience) + std::string(key), deadline);
    if (value) return std::move(*value);
    throw error(errc::timed_out, "nobody has set the key '" + std::string(key) + "' in time, at " + where_);
  }

 private:
  using tcp = asio::ip::tcp;
  using clock = std::chrono::steady_clock;

  // Starts something asynchronous and runs it until it is done or the time has come.
  template <class Start>
  asio::error_code finish(Start&& start, time_point end) {
    std::optional<asio::error_code> result;
    start([&result](asio::error_code e, auto&&...) { result = e; });
    io_.restart();
    io_.run_until(end);
    if (result) return *result;
    asio::error_code ignored;
    socket_.close(ignored);
    io_.restart();
    io_.run();  // the handler, with "cancelled"
    return asio::error::timed_out;
  }

  void connect(std::string const& host, std::uint16_t port, time_point deadline) {
    auto const addresses = detail::tcp::resolve(io_, host, port);
    asio::error_code failed = asio::error::timed_out;
    for (auto pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, std::chrono::milliseconds(100))) {
      for (tcp::endpoint const address : addresses) {
        // One address that swallows packets shall not use up the time of all.
        auto const end = std::min(deadline, clock::now() + std::chrono::seconds(3));
        failed = finish([&](auto done) { socket_.async_connect(address, done); }, end);
        asio::error_code ignored;
        // A port of this machine that nobody listens on can, rarely, be connected to itself.
        if (!failed && socket_.local_endpoint(ignored) != socket_.remote_endpoint(ignored)) {
          detail::tcp::close_on_exec(socket_);
          socket_.set_option(tcp::no_delay(true), ignored);
          return;
        }
        socket_.close(ignored);
      }
      if (clock::now() + pause >= deadline) break;
      std::this_thread::sleep_for(pause);
    }
    std::string words = "no store answers at " + where_ + " (" + failed.message() +
                        "): the rank that serves it, rank 0, may not have started";
    if (addresses.begin()->endpoint().address().is_loopback()) {
      words += "; " + addresses.begin()->endpoint().address().to_string() +
               " is reached from its own machine only: for ranks on several machines, set RINGLET_ADDRESS to the " +
               "address of rank 0's network interface";
    }
    throw error(errc::bootstrap, words, 0);
  }

  void greet(std::string_view job, time_point deadline) {
    using namespace detail::tcp;
    auto const end = std::max(deadline, clock::now() + std::chrono::seconds(1));
    std::string const answer = [&] {
      try {
        return talk(greeting(job, wire_version), end);
      } catch (error const&) {
        return std::string();
      }
    }();
    if (answer == "k") return;
    if (answer == "j") {
      throw error(errc::mismatch, "the store at " + where_ + " is of another job than '" + std::string(job) +
                                      "': give each job its own port");
    }
    if (answer.size() == 5 && answer[0] == 'v') {
      throw error(errc::mismatch, "the store at " + where_ + " has ringlet's wire version " +
                                      std::to_string(number(answer, 1)) + ", this rank has " +
                                      std::to_string(wire_version) + ": build all ranks with one ringlet");
    }
    throw error(errc::bootstrap,
                "what answers at " + where_ + " is no store of ringlet: another program may hold the port");
  }

  // Nothing when the answer is no.
  std::optional<std::string> ask(std::string const& request, time_point deadline) {
    std::string answer = talk(request, std::max(deadline, clock::now()) + std::chrono::seconds(5));
    if (answer == "n") return std::nullopt;
    if (answer.empty() || answer[0] != 'y') throw lost("it sent what is no answer");
    return answer.substr(1);
  }

  std::string talk(std::string const& request, time_point end) {
    using namespace detail::tcp;
    if (request.size() > longest_frame) {
      throw error(errc::invalid_argument, "a request of " + std::to_string(request.size()) +
                                              " bytes; the store takes " + std::to_string(longest_frame) +
                                              " at most, key and value together");
    }
    std::string const sent = frame(request);
    must(finish([&](auto done) { asio::async_write(socket_, asio::buffer(sent), done); }, end));
    std::array<char, 4> length{};
    must(finish([&](auto done) { asio::async_read(socket_, asio::buffer(length), done); }, end));
    std::uint32_t const size = number({length.data(), length.size()});
    if (size > longest_frame) throw lost("it sent what is no answer");
    std::string answer(size, '\0');
    must(finish([&](auto done) { asio::async_read(socket_, asio::buffer(answer), done); }, end));
    return answer;
  }

  void must(asio::error_code failed) {
    if (failed == asio::error::timed_out) throw lost("it did not answer in time");
    if (failed) throw lost(failed == asio::error::eof ? "it has ended" : failed.message());
  }
  error lost(std::string const& why) {
    asio::error_code ignored;
    socket_.close(ignored);
    return error(errc::peer_lost, "the store at " + where_ + ", which rank 0 serves, is lost: " + why, 0);
  }

  std::string where_;
  asio::io_context io_{1};
  tcp::socket socket_{io_};
};

}  // namespace ringlet
