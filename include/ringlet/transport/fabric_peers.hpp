// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringlet/clock.hpp"
#include "ringlet/error.hpp"
#include "ringlet/transport.hpp"
#include "ringlet/transport/hand_over.hpp"
#include "ringlet/transport/memory_file.hpp"

namespace ringlet {

/// A connection from each rank to each other one, on which next to nothing is said: faults, that a rank leaves, and
/// that it is about to send messages for the first time. It is kept open because its end is news, which the kernel
/// brings within milliseconds when a process ends, whatever it was doing; most providers of libfabric do not tell.
/// Where a host or a cable ends, the kernel asks after a few seconds of silence.
class fabric_peers {
 public:
  /// What is said.
  struct letter {
    enum class kind : std::uint32_t { level = 1, ready, sends, left, fault };
    kind what = kind::ready;
    std::uint32_t level = 0;     ///< what this rank's provider can do
    std::uint64_t finished = 0;  ///< operations that a rank had finished when it left
    fault why;
  };
  static_assert(std::is_trivially_copyable_v<letter>);

  /// Listens; nobody is connected yet.
  /// @param own an address of this host that the other ranks can reach
  /// @throws error(errc::bootstrap) when it cannot
  fabric_peers(int rank, int size, sockaddr const& own)
      : rank_(rank),
        news_(::epoll_create1(EPOLL_CLOEXEC)),
        door_(::socket(own.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    peers_.resize(static_cast<std::size_t>(size));
    address a = of(own);
    port_of(a) = 0;
    socklen_t bytes = sizeof a;
    if (!news_ || !door_ || ::bind(door_.get(), generic(a), size_of(a)) != 0 || ::listen(door_.get(), size) != 0 ||
        ::getsockname(door_.get(), generic(a), &bytes) != 0)
      throw error(errc::bootstrap, "listening on " + name(a) + " failed: " + std::strerror(errno));
    own_.assign(reinterpret_cast<char const*>(&a), size_of(a));
  }
  /// Where this rank listens, as bytes for the others.
  std::string const& own() const { return own_; }

  /// Connects all ranks; a collective.
  /// @param addresses the others' `own()`, by rank
  /// @param token a number that nobody else knows
  /// @throws error(errc::bootstrap) naming a rank that cannot be reached or does not come
  void connect(std::vector<std::string> const& addresses, std::uint64_t token, time_point until) {
    int const size = static_cast<int>(peers_.size());
    for (int peer = 0; peer < rank_; ++peer) {  // whose doors are open: it need not answer yet
      address a{};
      auto const& bytes = addresses[static_cast<std::size_t>(peer)];
      std::memcpy(&a, bytes.data(), std::min(bytes.size(), sizeof a));
      at(peer).connection = knock_at(a, peer, token, until);
    }
    for (int missing = size - 1 - rank_; missing > 0;) {
      auto [connection, peer] = answer(token, until);
      if (!connection) break;
      if (peer <= rank_ || peer >= size || at(peer).connection) continue;
      at(peer).connection = std::move(connection);
      --missing;
    }
    door_ = {};
    for (int peer = 0; peer < size; ++peer)
      if (peer != rank_ && !at(peer).connection)
        throw error(errc::bootstrap, detail::words("rank %d did not connect to rank %d in time", peer, rank_), peer);
    for (int peer = 0; peer < size; ++peer)
      if (peer != rank_) watch(peer);
  }
  /// A descriptor that is readable when there is something to listen to.
  int news() const { return news_.get(); }

  /// Tells all who are there. Any thread; never waits: whoever has not read so many letters is lost anyway.
  void tell_all(letter const& l) {
    std::lock_guard const alone(telling_);
    for (peer_state const& p : peers_) say(p, l);
  }
  /// Tells one.
  void tell(int peer, letter const& l) {
    std::lock_guard const alone(telling_);
    say(at(peer), l);
  }
  /// Hands on what peers have said, and notes who has ended. One thread.
  /// @param f called as f(peer, letter)
  template <class F>
  void listen(F&& f, std::chrono::milliseconds wait = {}) {
    epoll_event events[16];
    int const n = ::epoll_wait(news_.get(), events, 16, static_cast<int>(wait.count()));
    for (int i = 0; i < n; ++i) read(static_cast<int>(events[i].data.u32), f);
  }

  /// Whether a rank's process or its host has ended, or its connection is cut.
  bool ended(int peer) const { return at(peer).ended; }
  /// Whether it left in good order, and how many operations it had finished then.
  bool left(int peer) const { return at(peer).left; }
  std::uint64_t finished(int peer) const { return at(peer).finished; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }

 private:
  using address = sockaddr_storage;
  struct peer_state {
    descriptor connection;
    bool ended = false, left = false;
    std::uint64_t finished = 0;
    std::size_t read = 0;
    alignas(letter) std::byte letter_bytes[sizeof(letter)];
  };

  static address of(sockaddr const& own) {
    address a{};
    std::memcpy(&a, &own, own.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    return a;
  }
  static sockaddr* generic(address& a) { return reinterpret_cast<sockaddr*>(&a); }
  static socklen_t size_of(address const& a) {
    return a.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  }
  static in_port_t& port_of(address& a) {
    return a.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(a).sin6_port
                                   : reinterpret_cast<sockaddr_in&>(a).sin_port;
  }
  static std::string name(address& a) {
    char text[INET6_ADDRSTRLEN] = "";
    void const* const host = a.ss_family == AF_INET6
                                 ? static_cast<void const*>(&reinterpret_cast<sockaddr_in6&>(a).sin6_addr)
                                 : &reinterpret_cast<sockaddr_in&>(a).sin_addr;
    ::inet_ntop(a.ss_family, host, text, sizeof text);
    return std::string(text) + " port " + std::to_string(ntohs(port_of(a)));
  }
  void watch(int peer) {
    int const fd = at(peer).connection.get();
    epoll_event e{};
    e.events = EPOLLIN, e.data.u32 = static_cast<std::uint32_t>(peer);
    ::epoll_ctl(news_.get(), EPOLL_CTL_ADD, fd, &e);
    auto const set = [fd](int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); };
    set(IPPROTO_TCP, TCP_NODELAY, 1);
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, 5);  // seconds of silence, then so often asked, so many times
    set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
    set(IPPROTO_TCP, TCP_KEEPCNT, 3);
    set(IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);  // milliseconds for what was sent to be acknowledged
  }

  static void say(peer_state const& to, letter const& l) {
    if (to.connection)
      if (::send(to.connection.get(), &l, sizeof l, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return;
  }
  peer_state& at(int peer) { return peers_[static_cast<std::size_t>(peer)]; }
  peer_state const& at(int peer) const { return peers_[static_cast<std::size_t>(peer)]; }

  descriptor knock_at(address a, int peer, std::uint64_t token, time_point until) {
    descriptor to(::socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    detail::knock const k{token, rank_};
    int failed = !to || (::connect(to.get(), generic(a), size_of(a)) != 0 && errno != EINPROGRESS) ? errno : 0;
    pollfd p{to.get(), POLLOUT, 0};
    if (failed == 0 && ::poll(&p, 1, detail::milliseconds_until(until)) <= 0) failed = ETIMEDOUT;
    socklen_t bytes = sizeof failed;
    if (failed == 0) ::getsockopt(to.get(), SOL_SOCKET, SO_ERROR, &failed, &bytes);
    if (failed == 0 && ::send(to.get(), &k, sizeof k, MSG_NOSIGNAL) != sizeof k) failed = errno;
    if (failed != 0)
      throw error(
          errc::bootstrap,
          detail::words("rank %d at %s cannot be reached from rank %d: %s; see that both are in one network, and "
                        "say in the settings which interface to use",
                        peer, name(a).c_str(), rank_, std::strerror(failed)),
          peer);
    return to;
  }
  // The next peer that comes and knows the token. None at the deadline.
  std::pair<descriptor, int> answer(std::uint64_t token, time_point until) {
    while (detail::readable(door_.get(), until)) {
      descriptor peer(::accept4(door_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!peer) detail::refuse_without_descriptors();
      detail::knock k{};
      auto const soon = std::min(until, std::chrono::steady_clock::now() + std::chrono::seconds(1));
      if (!peer || !detail::readable(peer.get(), soon)) continue;
      if (::recv(peer.get(), &k, sizeof k, MSG_DONTWAIT) == sizeof k && k.token == token)
        return {std::move(peer), k.rank};
    }
    return {descriptor(), -1};
  }

  template <class F>
  void read(int peer, F& f) {
    peer_state& p = at(peer);
    for (;;) {
      ssize_t const n =
          ::recv(p.connection.get(), p.letter_bytes + p.read, sizeof p.letter_bytes - p.read, MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (n <= 0) {
        p.ended = true;
        ::epoll_ctl(news_.get(), EPOLL_CTL_DEL, p.connection.get(), nullptr);
        return;
      }
      p.read += static_cast<std::size_t>(n);
      if (p.read < sizeof p.letter_bytes) continue;
      p.read = 0;
      letter l;
      std::memcpy(static_cast<void*>(&l), p.letter_bytes, sizeof l);
      l.why.words[sizeof l.why.words - 1] = '\0';
      if (l.what == letter::kind::left) p.left = true, p.finished = l.finished;
      f(peer, l);
    }
  }

  int rank_;
  descriptor news_, door_;
  std::string own_;
  std::vector<peer_state> peers_;
  std::mutex telling_;
};

}  // namespace ringlet
