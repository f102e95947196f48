// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "ringlet/error.hpp"
#include "ringlet/transport.hpp"
#include "ringlet/transport/memory_file.hpp"

namespace ringlet {

/// Which ranks share a host: those that can reach each other by local sockets, as `shared_memory` needs it, which means
/// one kernel and one network namespace. Names of hosts are not asked: containers share or repeat them. A collective.
struct same_host {
  /// @return by rank, what names its host: the lowest rank there
  template <meeting M>
  std::vector<std::string> operator()(M& m, time_point until) const {
    // Names in the abstract namespace: there is no file, and the token keeps others from having the same.
    auto const call_with = [&](auto call, descriptor const& socket, int rank) {
      std::string const name = "ringlet/" + std::to_string(m.token()) + "/" + std::to_string(rank);
      sockaddr_un at{};
      at.sun_family = AF_UNIX;
      std::memcpy(at.sun_path + 1, name.data(), name.size());
      auto const size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
      return call(socket.get(), reinterpret_cast<sockaddr const*>(&at), size) == 0;
    };
    auto const new_socket = [] { return descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)); };
    descriptor const mine = new_socket(), probe = new_socket();
    if (!mine || !probe || !call_with(::bind, mine, m.rank()))
      throw error(errc::bootstrap, std::string("opening a local socket failed: ") + std::strerror(errno), m.rank());
    m.exchange("hosts/open", "", until);  // now all names are there
    int lowest = 0;
    while (lowest < m.rank() && !call_with(::connect, probe, lowest)) ++lowest;
    return m.exchange("hosts/lowest", std::to_string(lowest), until);  // they stay until everyone has looked
  }
};

}  // namespace ringlet
