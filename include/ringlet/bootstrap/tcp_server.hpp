// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <signal.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "ringlet/bootstrap/tcp_wire.hpp"
#include "ringlet/clock.hpp"
#include "ringlet/config.hpp"
#include "ringlet/error.hpp"

namespace ringlet {

/// Where a `tcp_server` listens, and for whom.
struct tcp_options {
  /// Address or name of the interface. Only this machine reaches the default. "::" is every interface, for IPv4 and
  /// IPv6 clients alike (IPv4 alone where the machine has no IPv6).
  std::string address = "127.0.0.1";
  /// 0 for any that is free.
  std::uint16_t port = 0;
  /// What clients must say before anything else is taken from them; at most 256 bytes. It keeps other jobs
  /// and strangers out. It travels as it is: it is no defence against those who read the network.
  std::string job{};
  /// How long the destructor waits for clients to leave, so that they can fetch what was set last.
  std::chrono::milliseconds linger{2000};
};

/// Keeps the keys of a `tcp_store` in the process of one rank, in a thread of its own, which takes no signals.
///
/// Clients that send garbage, say nothing, stop half way or die are dropped, and cost no other client anything.
/// No length that a client sends is believed before it is checked.
class tcp_server {
 public:
  /// Listens once it returns.
  /// @throws error(errc::bootstrap) when it cannot listen there
  /// @throws error(errc::invalid_argument) when the job's name is too long
  explicit tcp_server(tcp_options options);
  tcp_server(tcp_server const&) = delete;
  tcp_server& operator=(tcp_server const&) = delete;
  /// Takes no new clients, waits for those it has to leave, for `linger` at most, and ends. Gets that still wait fail.
  ~tcp_server();

  /// The port that it listens on.
  std::uint16_t port() const { return port_; }

 private:
  using tcp = asio::ip::tcp;
  class session;

  void listen();
  void accept();
  void forget(session const& who);
  void leave(std::shared_ptr<session> const& who);
  void end();

  tcp_options options_;
  std::uint16_t port_ = 0;
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  asio::steady_timer timer_{io_};
  // All below is touched by the server's thread only.
  bool ending_ = false;
  std::map<std::string, std::string, std::less<>> values_;
  std::multimap<std::string, std::shared_ptr<session>, std::less<>> waiting_;  // by key
  std::set<std::shared_ptr<session>> sessions_;
  std::thread thread_;
};

/// One client, as the server sees it.
class tcp_server::session : public std::enable_shared_from_this<session> {
 public:
  session(tcp_server& server, tcp::socket socket) : server_(server), socket_(std::move(socket)), timer_(server.io_) {}

  void start() {
    asio::error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    socket_.set_option(asio::socket_base::keep_alive(true), ignored);
    detail::tcp::close_on_exec(socket_);
    timer_.expires_after(std::chrono::seconds(10));
    timer_.async_wait([self = shared_from_this()](asio::error_code cancelled) {
      if (!cancelled && !self->greeted_) self->drop();
    });
    read();
  }

  // The value of the key that this client waits for.
  void answer(std::string const& value) {
    timer_.cancel();
    waits_ = false;
    send('y' + value);
  }

  void drop() {
    asio::error_code ignored;
    socket_.close(ignored);
    timer_.cancel();
    waits_ = false;
    server_.leave(shared_from_this());
  }

 private:
  // There is always a read under way, so that a client's death is noticed even while it waits for a key.
  void read() {
    asio::async_read(socket_, asio::buffer(length_), [self = shared_from_this()](asio::error_code failed, std::size_t) {
      using namespace detail::tcp;
      std::uint32_t const length = number({self->length_.data(), self->length_.size()});
      if (failed || length > (self->greeted_ ? longest_frame : longest_greeting)) return self->drop();
      self->body_.resize(length);
      asio::async_read(self->socket_, asio::buffer(self->body_), [self](asio::error_code broken, std::size_t) {
        if (broken || !self->take()) return self->drop();
        self->read();
      });
    });
  }

  void send(std::string const& body) {
    outbox_ += detail::tcp::frame(body);
    if (sending_.empty()) write();
  }
  void write() {
    std::swap(sending_, outbox_);
    if (sending_.empty()) {
      if (refused_) drop();
      return;
    }
    asio::async_write(socket_, asio::buffer(sending_),
                      [self = shared_from_this()](asio::error_code failed, std::size_t) {
                        if (failed) return self->drop();
                        self->sending_.clear();
                        self->write();
                      });
  }

  // Serves the frame in body_. False when it is none of ours, or comes before its time.
  bool take() {
    using namespace detail::tcp;
    if (waits_ || refused_ || outbox_.size() > longest_frame) return false;
    std::string_view const body = body_;
    if (!greeted_) return greet(body);
    if (body.size() < 5) return false;
    std::uint32_t const n = number(body, 1);
    switch (body[0]) {
      case 's':
        if (n > body.size() - 5) return false;
        send(server_.values_.emplace(body.substr(5, n), body.substr(5 + n)).second ? "y" : "n");
        wake(body.substr(5, n));
        return true;
      case 'g': get(body.substr(5), std::chrono::milliseconds(n)); return true;
      default: return false;
    }
  }

  bool greet(std::string_view body) {
    using namespace detail::tcp;
    if (body.size() < magic.size() + 4 || body.substr(0, magic.size()) != magic) return false;
    if (!same_secret(body.substr(magic.size() + 4), server_.options_.job)) {
      refused_ = true;
      send("j");
    } else if (number(body, magic.size()) != wire_version) {
      refused_ = true;
      send('v' + number(wire_version));
    } else {
      greeted_ = true;
      timer_.cancel();
      send("k");
    }
    return true;
  }

  void get(std::string_view key, std::chrono::milliseconds patience) {
    if (auto const found = server_.values_.find(key); found != server_.values_.end()) return send('y' + found->second);
    if (patience.count() == 0) return send("n");
    waits_ = true;
    server_.waiting_.emplace(key, shared_from_this());
    timer_.expires_after(patience);
    timer_.async_wait([self = shared_from_this()](asio::error_code cancelled) {
      // A value may have come when this call was under way already.
      if (cancelled || !self->waits_) return;
      self->waits_ = false;
      self->server_.forget(*self);
      self->send("n");
    });
  }

  void wake(std::string_view key) {
    auto const [first, last] = server_.waiting_.equal_range(key);
    if (first == last) return;
    std::string const& value = server_.values_.find(key)->second;
    for (auto at = first; at != last; ++at) at->second->answer(value);
    server_.waiting_.erase(first, last);
  }

  tcp_server& server_;
  tcp::socket socket_;
  asio::steady_timer timer_;  // for the greeting, then for each get that waits
  bool greeted_ = false;
  bool refused_ = false;
  bool waits_ = false;
  std::array<char, 4> length_{};
  std::string body_, outbox_, sending_;
};

inline tcp_server::tcp_server(tcp_options options) : options_(std::move(options)) {
  detail::tcp::check_job(options_.job);
  listen();
  accept();
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { io_.run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

inline tcp_server::~tcp_server() {
  asio::post(io_, [this] { end(); });
  thread_.join();
  // What is left holds the server: sessions, and handlers that were never called, go while it is whole.
  waiting_.clear();
  sessions_.clear();
}

inline void tcp_server::listen() {
  tcp::endpoint where;
  asio::error_code failed;
  bool const everywhere = options_.address == "::";
  if (everywhere) {
    where = {tcp::v6(), options_.port};
    acceptor_.open(where.protocol(), failed);
    if (!failed) acceptor_.set_option(asio::ip::v6_only(false), failed);
    if (failed) where = {tcp::v4(), options_.port};
  } else {
    where = detail::tcp::resolve(io_, options_.address, options_.port).begin()->endpoint();
  }
  if (!acceptor_.is_open()) acceptor_.open(where.protocol(), failed);
  if (!failed) acceptor_.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed) acceptor_.bind(where, failed);
  if (!failed) acceptor_.listen(asio::socket_base::max_listen_connections, failed);
  if (failed) {
    std::string words =
        "listening at " + detail::tcp::name(options_.address, options_.port) + " failed: " + failed.message();
    if (failed == asio::error::address_in_use) {
      words += "; another job with this port, or an earlier run that has not ended, may hold it: ss -ltnp 'sport = :" +
               std::to_string(options_.port) + "' names the holder";
    } else {
      words += "; the address must be one of this machine's own";
    }
    throw error(errc::bootstrap, words);
  }
  detail::tcp::close_on_exec(acceptor_);
  port_ = acceptor_.local_endpoint().port();
}

inline void tcp_server::accept() {
  acceptor_.async_accept([this](asio::error_code failed, tcp::socket socket) {
    if (ending_) return;
    if (failed) {  // out of file descriptors, most likely: clients that leave will give some back
      timer_.expires_after(std::chrono::milliseconds(50));
      timer_.async_wait([this](asio::error_code cancelled) {
        if (!cancelled) accept();
      });
      return;
    }
    (*sessions_.insert(std::make_shared<session>(*this, std::move(socket))).first)->start();
    accept();
  });
}

inline void tcp_server::forget(session const& who) {
  std::erase_if(waiting_, [&who](auto const& entry) { return entry.second.get() == &who; });
}

inline void tcp_server::leave(std::shared_ptr<session> const& who) {
  forget(*who);
  sessions_.erase(who);
  if (ending_ && sessions_.empty()) io_.stop();
}

inline void tcp_server::end() {
  ending_ = true;
  asio::error_code ignored;
  acceptor_.close(ignored);
  if (sessions_.empty()) return io_.stop();
  timer_.expires_after(options_.linger);
  timer_.async_wait([this](asio::error_code cancelled) {
    if (!cancelled) io_.stop();
  });
}

}  // namespace ringlet
