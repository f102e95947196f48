// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Variables of launchers that hold anything at all: they make sense, or an error says which does not.
#include "ringlet/bootstrap/environment.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "ringlet/error.hpp"

namespace {

constexpr char const* names[] = {"RINGLET_RANK",
                                 "RINGLET_SIZE",
                                 "RINGLET_ADDRESS",
                                 "RINGLET_PORT",
                                 "RINGLET_JOB",
                                 "RANK",
                                 "WORLD_SIZE",
                                 "MASTER_ADDR",
                                 "MASTER_PORT",
                                 "LOCAL_RANK",
                                 "LOCAL_WORLD_SIZE",
                                 "OMPI_COMM_WORLD_RANK",
                                 "OMPI_COMM_WORLD_SIZE",
                                 "OMPI_COMM_WORLD_LOCAL_RANK",
                                 "OMPI_COMM_WORLD_LOCAL_SIZE",
                                 "PMI_RANK",
                                 "PMI_SIZE",
                                 "PMI_FD",
                                 "MPI_LOCALRANKID",
                                 "MPI_LOCALNRANKS",
                                 "SLURM_PROCID",
                                 "SLURM_STEP_ID",
                                 "SLURM_STEP_NUM_TASKS",
                                 "SLURM_NTASKS",
                                 "SLURM_LOCALID",
                                 "SLURM_STEP_TASKS_PER_NODE",
                                 "SLURM_NODEID",
                                 "SLURM_JOB_ID"};
constexpr std::size_t count = sizeof names / sizeof *names;

}  // namespace

// The input: for each variable, its number and its value, which ends with a zero.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<char const*>(data), size);
  std::map<std::string, std::string, std::less<>> variables;
  while (!rest.empty()) {
    char const* const name = names[static_cast<unsigned char>(rest[0]) % count];
    rest.remove_prefix(1);
    auto const value = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(value.size() < rest.size() ? value.size() + 1 : value.size());
    variables[name] = value;
  }
  try {
    ringlet::launch_environment const e = ringlet::environment([&](char const* name) {
      auto const found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
    bool const sound = e.size >= 1 && e.rank >= 0 && e.rank < e.size && (e.pmi_fd >= 0 || !e.host.empty());
    if (!sound) __builtin_trap();
  } catch (ringlet::error const& e) {
    if (e.why() != ringlet::errc::bootstrap) __builtin_trap();
  }
  return 0;
}
