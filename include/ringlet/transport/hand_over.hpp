// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/clock.hpp"
#include "ringlet/error.hpp"
#include "ringlet/transport.hpp"
#include "ringlet/transport/memory_file.hpp"

namespace ringlet {

/// What a rank has got from another one of this machine.
struct handed_over {
  descriptor file;  ///< the peer's memory
  /// Becomes readable when the peer's process ends: the process itself, or, where that cannot be watched (another
  /// process namespace), the connection to it. None for ranks of one process.
  descriptor life;
};

namespace detail {

// What a rank says when it knocks. A stranger does not know the token.
struct knock {
  std::uint64_t token;
  std::int32_t rank;
};

inline bool readable(int fd, time_point until) {
  pollfd p{fd, POLLIN, 0};
  int n;
  while ((n = ::poll(&p, 1, milliseconds_until(until))) < 0 && errno == EINTR) {
  }
  return n > 0;
}
inline ucred credentials(descriptor const& connection) {
  ucred who{0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
  socklen_t size = sizeof who;
  ::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &who, &size);
  return who;
}

// A message of one byte, with room for a descriptor beside it.
struct parcel {
  char byte = 0;
  iovec body{&byte, 1};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  parcel() {
    message.msg_iov = &body, message.msg_iovlen = 1;
    message.msg_control = space, message.msg_controllen = sizeof space;
  }
  parcel(parcel const&) = delete;  // it points into itself
};
inline void send_descriptor(descriptor const& to, descriptor const& file) {
  parcel p;
  cmsghdr* const c = CMSG_FIRSTHDR(&p.message);
  c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
  int const fd = file.get();
  std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  ::sendmsg(to.get(), &p.message, MSG_NOSIGNAL);  // if it fails, the peer misses it and says so
}
inline descriptor receive_descriptor(descriptor const& from) {
  parcel p;
  if (::recvmsg(from.get(), &p.message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) <= 0) return {};
  cmsghdr* const c = CMSG_FIRSTHDR(&p.message);
  if (c == nullptr || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof(int))) return {};
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(c), sizeof fd);
  return descriptor(fd);
}

// To wait does not help who has no descriptors left.
inline void refuse_without_descriptors() {
  if (errno == EMFILE || errno == ENFILE)
    throw error(errc::bootstrap,
                "this rank has no file descriptors left, of which it needs three for each other rank: "
                "raise the limit (ulimit -n)");
}

// A socket in the abstract namespace: it has no file, so nothing is left behind. The kernel picks its name.
class listener {
 public:
  explicit listener(int backlog) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un any{};
    any.sun_family = AF_UNIX;
    socklen_t size = sizeof any;
    if (!socket_ || ::bind(socket_.get(), reinterpret_cast<sockaddr*>(&any), sizeof any.sun_family) != 0 ||
        ::listen(socket_.get(), backlog) != 0 ||
        ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&any), &size) != 0)
      throw error(errc::bootstrap, std::string("opening a local socket failed: ") + std::strerror(errno));
    name_.assign(any.sun_path, size - offsetof(sockaddr_un, sun_path));
  }
  std::string const& name() const { return name_; }

  // The next peer that knocks with the right token and is of the same user; others are sent away. None at the deadline.
  std::pair<descriptor, int> accept(std::uint64_t token, time_point until) {
    while (readable(socket_.get(), until)) {
      descriptor peer(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!peer) refuse_without_descriptors();
      if (!peer || credentials(peer).uid != ::geteuid()) continue;
      knock k{};
      auto const soon = std::chrono::steady_clock::now() + std::chrono::seconds(1);
      if (!readable(peer.get(), soon < until ? soon : until) ||
          ::recv(peer.get(), &k, sizeof k, MSG_DONTWAIT) != sizeof k)
        continue;
      if (k.token == token) return {std::move(peer), k.rank};
    }
    return {descriptor(), -1};
  }

 private:
  descriptor socket_;
  std::string name_;
};

inline descriptor connect_to(std::string const& name, knock const& k) {
  descriptor peer(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::size_t const length = name.copy(to.sun_path, sizeof to.sun_path);
  auto const size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  if (!peer || ::connect(peer.get(), reinterpret_cast<sockaddr*>(&to), size) != 0) return {};
  if (::send(peer.get(), &k, sizeof k, MSG_NOSIGNAL) != sizeof k) return {};
  return peer;
}

}  // namespace detail

/// Hands this rank's memory to all ranks of a meeting, and gets theirs. A collective. Ranks show by it that they share
/// a machine; no name of a host is asked.
/// @param name the exchange's name in the meeting
/// @return by rank; nothing at this rank's own place
/// @throws error(errc::unsupported) naming a rank that cannot be reached by local sockets
/// @throws error(errc::timed_out) naming the ranks that did not come
template <meeting M>
std::vector<handed_over> hand_over(M& m, std::string const& name, descriptor const& mine, time_point until) {
  auto const size = static_cast<std::size_t>(m.size());
  detail::listener door(m.size());
  auto const names = m.exchange(name, door.name(), until);
  std::vector<descriptor> connections(size);
  std::vector<handed_over> got(size);
  for (int peer = 0; peer < m.size(); ++peer) {
    if (peer == m.rank()) continue;
    auto const i = static_cast<std::size_t>(peer);
    connections[i] = detail::connect_to(names[i], {m.token(), m.rank()});
    if (!connections[i]) detail::refuse_without_descriptors();
    if (!connections[i])
      throw error(
          errc::unsupported,
          detail::words(
              "rank %d cannot be reached from rank %d by a local socket (%s): it has ended, or it is on another "
              "machine or in another network namespace; run containers with a common one, or use another transport",
              peer, m.rank(), std::strerror(errno)),
          peer);
  }
  std::vector<bool> served(size);
  served[static_cast<std::size_t>(m.rank())] = true;
  for (std::size_t waiting = size - 1; waiting > 0;) {
    auto const [peer, rank] = door.accept(m.token(), until);
    if (!peer) break;
    if (rank < 0 || rank >= m.size() || served[static_cast<std::size_t>(rank)]) continue;
    detail::send_descriptor(peer, mine);
    served[static_cast<std::size_t>(rank)] = true;
    --waiting;
  }
  for (std::size_t i = 0; i < size; ++i) {
    if (static_cast<int>(i) == m.rank()) continue;
    if (served[i] && detail::readable(connections[i].get(), until))
      got[i].file = detail::receive_descriptor(connections[i]);
    if (!got[i].file)
      throw error(errc::timed_out,
                  "rank " + std::to_string(i) + " did not hand over its memory to rank " + std::to_string(m.rank()) +
                      " in time: see what became of it",
                  static_cast<int>(i));
    pid_t const process = detail::credentials(connections[i]).pid;
    if (process == ::getpid()) continue;
    if (process > 0) got[i].life = descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
    if (!got[i].life) got[i].life = std::move(connections[i]);
  }
  return got;
}

}  // namespace ringlet
