// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "ringlet/bootstrap/environment.hpp"
#include "ringlet/bootstrap/pmi.hpp"
#include "ringlet/bootstrap/roster.hpp"
#include "ringlet/bootstrap/tcp_server.hpp"
#include "ringlet/bootstrap/tcp_store.hpp"

namespace ringlet {

/// A rank that a launcher has started, with its way to the others: a `tcp_store`, and on rank 0 the server of it.
/// Needs Asio. It must live as long as communicators that were connected through it may still use the store; when it
/// ends, rank 0 waits a little for the others to leave.
class launched_rank {
 public:
  /// Serves (rank 0) and connects. The server is for this machine only unless ranks are on several machines.
  /// @param where what `environment` said
  /// @param deadline when to give up
  /// @throws error(errc::bootstrap, errc::mismatch, errc::timed_out) when the store cannot be reached
  launched_rank(launch_environment where, time_point deadline) : where_(std::move(where)) {
    std::optional<pmi> launcher;
    if (where_.pmi_fd >= 0) launcher.emplace(where_.pmi_fd, deadline);
    if (launcher && where_.job.empty()) where_.job = launcher->job();
    if (where_.rank == 0) {
      bool const several = where_.local_size >= 0 && where_.local_size < where_.size;
      server_.emplace(tcp_options{several ? "::" : where_.host, where_.port, where_.job});
      where_.port = server_->port();
      if (where_.host.empty()) where_.host = machine();
    }
    if (launcher) meet(*launcher);
    store_.emplace(where_.host, where_.port, where_.job, deadline);
  }

  /// What the launcher said, with the host, port and job that are used.
  launch_environment const& where() const { return where_; }
  /// For `agree`, `exchange` and `connect`; refers to this object.
  ringlet::bootstrap<tcp_store> bootstrap() { return {where_.rank, where_.size, *store_}; }

 private:
  static std::string machine() {
    char name[256] = "";
    ::gethostname(name, sizeof name - 1);
    return name;
  }

  void meet(pmi& launcher) {
    if (where_.rank == 0) {
      launcher.put("ringlet-host", where_.host);
      launcher.put("ringlet-port", std::to_string(where_.port));
    }
    launcher.barrier();
    if (where_.rank != 0) {
      where_.host = launcher.get("ringlet-host");
      std::string const port = launcher.get("ringlet-port");
      where_.port = static_cast<std::uint16_t>(detail::variables([&port](char const*) {
                                                 return port.c_str();
                                               }).number("the port that rank 0 tells", 1, 65535));
    }
    launcher.finalize();
  }

  launch_environment where_;
  std::optional<tcp_server> server_;
  std::optional<tcp_store> store_;  // leaves the server before it ends
};

/// Makes this process a rank of the job that its launcher has started: torchrun, Open MPI, hydra, Slurm, or the
/// RINGLET_ variables; with none of them, rank 0 of 1. See `environment` for what is read. Under hydra once a process.
/// @param deadline when to give up
inline launched_rank from_environment(time_point deadline) { return launched_rank(environment(), deadline); }

}  // namespace ringlet
