// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <charconv>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "ringlet/error.hpp"

namespace ringlet {

/// What the launcher's variables say about this process.
struct launch_environment {
  std::string launcher = "none";   ///< "none", "ringlet", "torchrun", "Open MPI", "hydra", "Slurm"
  int rank = 0;                    ///< of this process
  int size = 1;                    ///< ranks in all
  int local_rank = 0;              ///< of this process among those of its machine, or -1 where nobody says so
  int local_size = 1;              ///< ranks on this machine, or -1 where nobody says so
  std::string host = "127.0.0.1";  ///< where rank 0 serves the store; empty: rank 0 tells it over `pmi_fd`
  std::uint16_t port = 0;          ///< the port of the store; 0: any, with one rank, or with `pmi_fd`
  std::string job{};               ///< what ranks of this job, and no others, say; empty: what `pmi_fd` says
  int pmi_fd = -1;                 ///< the descriptor on which hydra speaks PMI-1, or -1
};

/// Ports that are derived from the name of a job are from `first` to `first + count - 1`: below those that Linux gives
/// to outgoing connections, away from the usual ones of launchers.
struct derived_ports {
  static constexpr std::uint16_t first = 20480;
  static constexpr std::uint16_t count = 8192;
};

namespace detail {

/// The environment of this process.
struct process_variables {
  char const* operator()(char const* name) const { return std::getenv(name); }
};

// FNV-1a of 32 bits (Fowler, Noll, Vo), for the same port must come out on all ranks, whatever they were built with.
inline std::uint16_t derived_port(std::string_view job) {
  std::uint32_t hash = 2166136261u;
  for (char const c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return static_cast<std::uint16_t>(derived_ports::first + hash % derived_ports::count);
}

template <class Get>
class variables {
 public:
  explicit variables(Get get) : get_(std::move(get)) {}

  // A variable that is empty counts as one that is not set.
  bool has(char const* name) const { return !text(name).empty(); }
  std::string text(char const* name, char const* otherwise = "") const {
    char const* const value = get_(name);
    return value && *value ? value : otherwise;
  }
  int number(char const* name, int lowest, int highest = INT_MAX) const {
    std::string const value = text(name);
    int n = 0;
    auto const [end, failed] = std::from_chars(value.data(), value.data() + value.size(), n);
    if (value.empty() || failed != std::errc{} || end != value.data() + value.size() || n < lowest || n > highest) {
      throw error(errc::bootstrap, std::string(name) + (value.empty() ? " is not set" : " is '" + value + "'") +
                                       ": a number from " + std::to_string(lowest) + " to " + std::to_string(highest) +
                                       " is expected");
    }
    return n;
  }
  int number_or(int otherwise, char const* name, int lowest) const {
    return has(name) ? number(name, lowest) : otherwise;
  }

 private:
  Get get_;
};

// Entry `node` of Slurm's list of tasks a node: "2(x3),1" is 2, 2, 2, 1.
inline int tasks_of_node(std::string_view const list, int node) {
  char const* at = list.data();
  char const* const end = at + list.size();
  while (at < end) {
    int tasks = 0, times = 1;
    auto parsed = std::from_chars(at, end, tasks);
    if (parsed.ec != std::errc{}) break;
    if (end - parsed.ptr > 2 && parsed.ptr[0] == '(' && parsed.ptr[1] == 'x') {
      parsed = std::from_chars(parsed.ptr + 2, end, times);
      if (parsed.ec != std::errc{} || parsed.ptr == end || *parsed.ptr++ != ')') break;
    }
    if (node < times) return tasks;
    node -= times;
    at = parsed.ptr + 1;  // the comma
  }
  throw error(errc::bootstrap, "SLURM_STEP_TASKS_PER_NODE is '" + std::string(list) +
                                   "': something like 2(x3),1 is expected, with an entry for each SLURM_NODEID");
}

}  // namespace detail

/// Reads who this process is from the variables that launchers set. They are looked for in this order, so that those of
/// an outer launcher, which leak into an inner one, do not win:
///
/// | launcher | when | where ranks meet |
/// |---|---|---|
/// | ringlet | RINGLET_RANK and RINGLET_SIZE | RINGLET_ADDRESS |
/// | torchrun | RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT | MASTER_ADDR, never at MASTER_PORT: it is torchrun's |
/// | Open MPI | OMPI_COMM_WORLD_RANK | this machine; MASTER_ADDR when there are several |
/// | hydra (MPICH) | PMI_RANK and MPI_LOCALNRANKS | rank 0 tells the others over PMI-1 |
/// | Slurm | SLURM_PROCID in a step of srun | this machine; MASTER_ADDR when there are several |
/// | none | none of these | rank 0 of 1 |
///
/// A part of what torchrun or hydra sets, of several ranks, is an error: each process would be alone without a word.
///
/// RINGLET_ADDRESS (of rank 0), RINGLET_PORT and RINGLET_JOB go before what a launcher says. Without RINGLET_PORT the
/// port is derived from the job's name, see `derived_ports`. Several machines are seen by a local size below the size.
///
/// @tparam Get called with a variable's name; returns its text, or null
/// @param get for example a look into a map, for tests
/// @throws error(errc::bootstrap) naming a variable that is missing or makes no sense, with its value
template <class Get = detail::process_variables>
launch_environment environment(Get get = {}) {
  detail::variables<Get> const vars(std::move(get));
  launch_environment e;
  auto const read = [&](char const* launcher, char const* rank, char const* size) {
    e.launcher = launcher;
    e.size = vars.number(size, 1);
    e.rank = vars.number(rank, 0);
    if (e.rank >= e.size) {
      throw error(errc::bootstrap, std::string(rank) + " is " + std::to_string(e.rank) + ", " + size + " is " +
                                       std::to_string(e.size) + ": the rank must be below the size");
    }
  };

  if (vars.has("RINGLET_RANK") || vars.has("RINGLET_SIZE")) {
    read("ringlet", "RINGLET_RANK", "RINGLET_SIZE");
    e.local_rank = vars.has("RINGLET_ADDRESS") ? -1 : e.rank;
    e.local_size = vars.has("RINGLET_ADDRESS") ? -1 : e.size;
    e.job = "ringlet";
  } else if (vars.has("RANK") && vars.has("WORLD_SIZE") && vars.has("MASTER_ADDR") && vars.has("MASTER_PORT")) {
    read("torchrun", "RANK", "WORLD_SIZE");
    e.local_rank = vars.number_or(-1, "LOCAL_RANK", 0);
    e.local_size = vars.number_or(-1, "LOCAL_WORLD_SIZE", 1);
    e.host = vars.text("MASTER_ADDR");
    // TORCHELASTIC_RESTART_COUNT differs between machines; the port is a new one after each restart.
    e.job = "torchrun/" + vars.text("TORCHELASTIC_RUN_ID") + '/' + std::to_string(vars.number("MASTER_PORT", 1, 65535));
  } else if (vars.has("OMPI_COMM_WORLD_RANK")) {
    read("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
    // Not OMPI_COMM_WORLD_NODE_RANK, which counts the processes of other jobs as well.
    e.local_rank = vars.number("OMPI_COMM_WORLD_LOCAL_RANK", 0);
    e.local_size = vars.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1);
    e.job = "openmpi/" + vars.text("PMIX_NAMESPACE", vars.text("OMPI_MCA_ess_base_jobid").c_str());
  } else if (vars.has("PMI_RANK") && vars.has("MPI_LOCALNRANKS")) {
    read("hydra", "PMI_RANK", "PMI_SIZE");
    e.local_rank = vars.number("MPI_LOCALRANKID", 0);
    e.local_size = vars.number("MPI_LOCALNRANKS", 1);
    if (e.local_size < e.size) e.host.clear();
    if (e.size > 1 && !vars.has("RINGLET_PORT")) e.pmi_fd = vars.number("PMI_FD", 0);
  } else if (vars.has("SLURM_PROCID") && vars.has("SLURM_STEP_ID")) {
    read("Slurm", "SLURM_PROCID", vars.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS");
    e.local_rank = vars.number("SLURM_LOCALID", 0);
    e.local_size = detail::tasks_of_node(vars.text("SLURM_STEP_TASKS_PER_NODE"), vars.number("SLURM_NODEID", 0));
    e.job = "slurm/" + vars.text("SLURM_JOB_ID") + '.' + vars.text("SLURM_STEP_ID");
  } else {
    auto const refuse_part = [&](char const* rank, char const* size, char const* lacks) {
      if (vars.has(rank) && vars.has(size) && vars.text(size) != "1")
        throw error(errc::bootstrap, std::string(rank) + " and " + size + " are set, but not " + lacks +
                                         ": set that too, or RINGLET_RANK and RINGLET_SIZE, or unset " + rank);
    };
    refuse_part("RANK", "WORLD_SIZE", vars.has("MASTER_ADDR") ? "MASTER_PORT" : "MASTER_ADDR");
    refuse_part("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS");
  }

  // SLURM_LAUNCH_NODE_IPADDR is where srun was called, which need not be where rank 0 is.
  bool const told_by_rank_0 = e.pmi_fd >= 0 || e.launcher == "torchrun";
  if (e.local_size >= 0 && e.local_size < e.size && !told_by_rank_0) e.host = vars.text("MASTER_ADDR");
  e.host = vars.text("RINGLET_ADDRESS", e.host.c_str());
  e.job = vars.text("RINGLET_JOB", e.job.c_str());
  if (vars.has("RINGLET_PORT")) {
    e.port = static_cast<std::uint16_t>(vars.number("RINGLET_PORT", 1, 65535));
  } else if (e.size > 1 && e.pmi_fd < 0) {
    e.port = detail::derived_port(e.job);
    if (vars.text("MASTER_PORT") == std::to_string(e.port)) ++e.port;
  }
  if (e.host.empty() && e.pmi_fd < 0) {
    throw error(errc::bootstrap, e.launcher + " runs " + std::to_string(e.size) + " ranks on several machines (" +
                                     std::to_string(e.local_size) +
                                     " on this one) and does not tell where rank 0 is: " +
                                     "set RINGLET_ADDRESS to the address of rank 0's machine on all ranks");
  }
  return e;
}

}  // namespace ringlet
