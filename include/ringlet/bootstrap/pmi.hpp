// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "ringlet/clock.hpp"
#include "ringlet/store.hpp"

namespace ringlet {

/// PMI-1, the lines of text that hydra, MPICH's launcher, speaks over the descriptor of PMI_FD. Just enough of it for
/// one rank to tell the others something. A process may do so once, and must not use MPI besides. Source: MPICH, "PMI:
/// A Scalable Parallel Process-Management Interface", and its wire protocol, version 1.1.
class pmi {
 public:
  /// @param fd a connected stream socket: the number in PMI_FD
  /// @param deadline for everything that this object does
  /// @throws error(errc::bootstrap) when what is there does not speak PMI-1
  pmi(int fd, time_point deadline) : fd_(fd), deadline_(deadline) {
    ask("cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init");
    kvs_ = field(ask("cmd=get_my_kvsname", "cmd=my_kvsname"), "kvsname");
  }

  /// The launcher's name for this job, the same on all ranks.
  std::string const& job() const { return kvs_; }
  /// Makes a value known to all ranks, once all have called `barrier`. Neither key nor value may hold blanks.
  void put(std::string const& key, std::string const& value) {
    ask("cmd=put kvsname=" + kvs_ + " key=" + key + " value=" + value, "cmd=put_result");
  }
  /// Waits until all ranks are here.
  void barrier() { ask("cmd=barrier_in", "cmd=barrier_out"); }
  /// The value of a key, or an error.
  std::string get(std::string const& key) {
    return field(ask("cmd=get kvsname=" + kvs_ + " key=" + key, "cmd=get_result"), "value");
  }
  /// Says good-bye; the launcher takes a process that ends without for a failed one.
  void finalize() { ask("cmd=finalize", "cmd=finalize_ack"); }

 private:
  static constexpr std::size_t longest_line = 4096;

  static std::string field(std::string const& line, std::string const& name) {
    std::size_t const at = (' ' + line).find(' ' + name + '=');
    if (at == std::string::npos) return {};
    std::size_t const value = at + name.size() + 1;
    return line.substr(value, line.find(' ', value) - value);
  }

  std::string ask(std::string const& request, std::string_view answer) {
    std::string const line = request + '\n';
    if (::send(fd_, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size())) {
      throw error(errc::bootstrap, "'" + request + "' could not be sent to the launcher: " + std::strerror(errno));
    }
    std::string reply;
    for (char c = 0;;) {
      auto const left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
      pollfd watched{fd_, POLLIN, 0};
      int const ready = ::poll(&watched, 1, static_cast<int>(std::clamp<long>(left.count(), 0, 1 << 30)));
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0)
        throw error(errc::timed_out, "the launcher did not answer '" + request + "' in time; are all ranks here?");
      if (::recv(fd_, &c, 1, 0) != 1) throw error(errc::bootstrap, "the launcher hung up after '" + request + "'");
      if (c == '\n') break;
      reply += c;
      if (reply.size() > longest_line) break;
    }
    std::string const rc = field(reply, "rc");
    if (std::string_view(reply).substr(0, answer.size()) != answer || (!rc.empty() && rc != "0")) {
      throw error(errc::bootstrap, "the launcher answered '" + request + "' by '" + reply.substr(0, 200) + "', '" +
                                       std::string(answer) + "' with rc=0 was expected: does it speak PMI-1?");
    }
    return reply;
  }

  int fd_;
  time_point deadline_;
  std::string kvs_;
};

}  // namespace ringlet
