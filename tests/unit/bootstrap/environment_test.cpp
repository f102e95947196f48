// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/bootstrap/environment.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

namespace {

using variables = std::map<std::string, std::string>;

ringlet::launch_environment read(variables const& vars) {
  return ringlet::environment([&vars](char const* name) -> char const* {
    auto const found = vars.find(name);
    return found == vars.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal(variables const& vars) {
  try {
    read(vars);
  } catch (ringlet::error const& e) {
    CHECK(e.why() == ringlet::errc::bootstrap);
    return e.what();
  }
  return "accepted";
}

bool contains(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

variables with(variables base, variables const& more) {
  for (auto const& [name, value] : more) base[name] = value;
  return base;
}

bool derived(std::uint16_t port) {
  return port >= ringlet::derived_ports::first && port < ringlet::derived_ports::first + ringlet::derived_ports::count;
}

variables const torchrun{{"RANK", "5"},
                         {"WORLD_SIZE", "8"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_WORLD_SIZE", "4"},
                         {"GROUP_RANK", "1"},
                         {"MASTER_ADDR", "node0"},
                         {"MASTER_PORT", "29500"},
                         {"TORCHELASTIC_RUN_ID", "run"},
                         {"TORCHELASTIC_RESTART_COUNT", "0"}};
variables const open_mpi{{"OMPI_COMM_WORLD_RANK", "3"},       {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "3"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                         {"OMPI_COMM_WORLD_NODE_RANK", "7"},  {"PMIX_NAMESPACE", "1915092993"}};
variables const hydra{
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_FD", "8"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
variables const slurm{{"SLURM_PROCID", "6"},
                      {"SLURM_NTASKS", "8"},
                      {"SLURM_STEP_NUM_TASKS", "8"},
                      {"SLURM_LOCALID", "0"},
                      {"SLURM_NODEID", "2"},
                      {"SLURM_JOB_ID", "17"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_STEP_TASKS_PER_NODE", "5,1(x3)"},
                      {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"}};

}  // namespace

TEST_CASE("without a launcher: rank 0 of 1") {
  auto const e = read({{"PATH", "/bin"}, {"MASTER_ADDR", "node0"}});
  CHECK(e.launcher == "none");
  CHECK(e.rank == 0);
  CHECK(e.size == 1);
  CHECK(e.local_rank == 0);
  CHECK(e.local_size == 1);
  CHECK(e.host == "127.0.0.1");
  CHECK(e.port == 0);
}

TEST_CASE("torchrun") {
  auto const e = read(torchrun);
  CHECK(e.launcher == "torchrun");
  CHECK(e.rank == 5);
  CHECK(e.size == 8);
  CHECK(e.local_rank == 1);
  CHECK(e.local_size == 4);
  CHECK(e.host == "node0");
  CHECK(derived(e.port));
}

TEST_CASE("torchrun: never at MASTER_PORT, even if it is the derived port") {
  for (int port = ringlet::derived_ports::first; port < ringlet::derived_ports::first + ringlet::derived_ports::count;
       ++port) {
    auto const e = read(with(torchrun, {{"MASTER_PORT", std::to_string(port)}}));
    CHECK(e.port != port);
  }
  auto const port = ringlet::detail::derived_port("fixed");
  auto const e = read(with(torchrun, {{"RINGLET_JOB", "fixed"}, {"MASTER_PORT", std::to_string(port)}}));
  CHECK(e.port == port + 1);
}

TEST_CASE("torchrun: ranks of one job agree on port and job, another run or port differs") {
  auto const a = read(torchrun),
             b = read(with(torchrun, {{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"TORCHELASTIC_RESTART_COUNT", "3"}}));
  CHECK(a.port == b.port);
  CHECK(a.job == b.job);
  CHECK(a.job != read(with(torchrun, {{"TORCHELASTIC_RUN_ID", "other"}})).job);
  CHECK(a.job != read(with(torchrun, {{"MASTER_PORT", "29501"}})).job);
}

TEST_CASE("plain RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, with no local rank") {
  auto const e = read({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}});
  CHECK(e.launcher == "torchrun");
  CHECK(e.local_rank == -1);
  CHECK(e.local_size == -1);
}

TEST_CASE("Open MPI: the local rank is not OMPI_COMM_WORLD_NODE_RANK") {
  auto const e = read(open_mpi);
  CHECK(e.launcher == "Open MPI");
  CHECK(e.rank == 3);
  CHECK(e.size == 4);
  CHECK(e.local_rank == 3);
  CHECK(e.local_size == 4);
  CHECK(e.host == "127.0.0.1");
  CHECK(derived(e.port));
  CHECK(e.job != read(with(open_mpi, {{"PMIX_NAMESPACE", "2"}})).job);
}

TEST_CASE("Open MPI without PMIX_NAMESPACE") {
  auto vars = open_mpi;
  vars.erase("PMIX_NAMESPACE");
  vars["OMPI_MCA_ess_base_jobid"] = "77";
  CHECK(contains(read(vars).job, "77"));
}

TEST_CASE("hydra: rank 0 tells the way over PMI") {
  auto const e = read(hydra);
  CHECK(e.launcher == "hydra");
  CHECK(e.rank == 1);
  CHECK(e.size == 2);
  CHECK(e.local_rank == 1);
  CHECK(e.local_size == 2);
  CHECK(e.pmi_fd == 8);
  CHECK(e.host == "127.0.0.1");
  CHECK(read(with(hydra, {{"PMI_SIZE", "4"}})).host == "");
  CHECK(read(with(hydra, {{"RINGLET_PORT", "5000"}})).pmi_fd == -1);
}

TEST_CASE("Slurm: uneven tasks a node") {
  auto const alone = read(with(slurm, {{"MASTER_ADDR", "node0"}}));
  CHECK(alone.launcher == "Slurm");
  CHECK(alone.rank == 6);
  CHECK(alone.size == 8);
  CHECK(alone.local_rank == 0);
  CHECK(alone.local_size == 1);
  CHECK(alone.host == "node0");
  CHECK(contains(alone.job, "17.0"));
  auto const one = read(with(slurm, {{"SLURM_STEP_TASKS_PER_NODE", "8"}, {"SLURM_NODEID", "0"}}));
  CHECK(one.local_size == 8);
  CHECK(one.host == "127.0.0.1");
}

TEST_CASE("Slurm's list of tasks a node") {
  using ringlet::detail::tasks_of_node;
  CHECK(tasks_of_node("8", 0) == 8);
  CHECK(tasks_of_node("5,1(x3)", 0) == 5);
  CHECK(tasks_of_node("5,1(x3)", 3) == 1);
  CHECK(tasks_of_node("2(x3),1", 2) == 2);
  CHECK(tasks_of_node("2(x3),1", 3) == 1);
  for (char const* list : {"", "x", "2(", "2(x", "2(x3", "2(x3),", "2(x)", "2(x1),y"}) {
    CHECK_THROWS_AS(tasks_of_node(list, 3), ringlet::error);
  }
}

TEST_CASE("C71 several machines and nobody says where rank 0 is: the words say what to set") {
  for (variables const& vars : {slurm, with(open_mpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})}) {
    auto const words = refusal(vars);
    CHECK(contains(words, "set RINGLET_ADDRESS"));
    CHECK(read(with(vars, {{"RINGLET_ADDRESS", "10.1.1.1"}})).host == "10.1.1.1");
    CHECK(read(with(vars, {{"MASTER_ADDR", "10.2.2.2"}})).host == "10.2.2.2");
    CHECK(read(with(vars, {{"MASTER_ADDR", "10.2.2.2"}, {"RINGLET_ADDRESS", "10.1.1.1"}})).host == "10.1.1.1");
  }
}

TEST_CASE("variables of an outer launcher that leak do not win") {
  CHECK(read(with(slurm, open_mpi)).launcher == "Open MPI");
  CHECK(read(with(slurm, hydra)).launcher == "hydra");
  CHECK(read(with(slurm, torchrun)).launcher == "torchrun");
  CHECK(read(with(open_mpi, torchrun)).launcher == "torchrun");
}

TEST_CASE("srun --mpi=pmi2 sets PMI_ variables, but does not speak PMI-1") {
  auto const e = read(with(slurm, {{"PMI_RANK", "6"}, {"PMI_SIZE", "8"}, {"PMI_FD", "9"}, {"MASTER_ADDR", "node0"}}));
  CHECK(e.launcher == "Slurm");
  CHECK(e.pmi_fd == -1);
}

TEST_CASE("a batch script of Slurm, outside of srun, is one rank") {
  auto vars = slurm;
  vars.erase("SLURM_STEP_ID");
  CHECK(read(vars).launcher == "none");
}

TEST_CASE("RINGLET_RANK and RINGLET_SIZE go before every launcher") {
  variables const mine{{"RINGLET_RANK", "1"}, {"RINGLET_SIZE", "2"}};
  for (variables const& other : {variables{}, torchrun, open_mpi, hydra, slurm}) {
    auto const e = read(with(other, mine));
    CHECK(e.launcher == "ringlet");
    CHECK(e.rank == 1);
    CHECK(e.size == 2);
    CHECK(e.local_size == 2);
    CHECK(e.host == "127.0.0.1");
    CHECK(derived(e.port));
    CHECK(e.pmi_fd == -1);
  }
  auto const far = read(with(mine, {{"RINGLET_ADDRESS", "fd00::1"}, {"RINGLET_PORT", "4321"}, {"RINGLET_JOB", "j"}}));
  CHECK(far.host == "fd00::1");
  CHECK(far.port == 4321);
  CHECK(far.job == "j");
  CHECK(far.local_size == -1);
}

TEST_CASE("RINGLET_ADDRESS, RINGLET_PORT and RINGLET_JOB go before what a launcher says") {
  variables const mine{{"RINGLET_ADDRESS", "10.9.9.9"}, {"RINGLET_PORT", "4321"}, {"RINGLET_JOB", "j"}};
  for (variables const& other : {torchrun, open_mpi, hydra, slurm}) {
    auto const e = read(with(other, mine));
    CHECK(e.launcher != "ringlet");
    CHECK(e.host == "10.9.9.9");
    CHECK(e.port == 4321);
    CHECK(e.job == "j");
  }
}

TEST_CASE("a variable that is missing or makes no sense is named, with its value") {
  CHECK(contains(refusal({{"RINGLET_RANK", "0"}}), "RINGLET_SIZE is not set"));
  for (std::string value : {"four", "4x", " 4", "-1", "0x4", "4.0", "99999999999999999999"}) {
    CHECK(contains(refusal(with(torchrun, {{"RANK", value}})), "RANK is '" + value + "'"));
    CHECK(contains(refusal(with(open_mpi, {{"OMPI_COMM_WORLD_SIZE", value}})),
                   "OMPI_COMM_WORLD_SIZE is '" + value + "'"));
    CHECK(contains(refusal(with(slurm, {{"SLURM_NODEID", value}})), "SLURM_NODEID is '" + value + "'"));
    CHECK(contains(refusal(with(hydra, {{"PMI_FD", value}})), "PMI_FD is '" + value + "'"));
  }
  for (std::string value : {"0", "65536", "http"}) {
    CHECK(contains(refusal(with(open_mpi, {{"RINGLET_PORT", value}})), "RINGLET_PORT is '" + value + "'"));
  }
  CHECK(contains(refusal(with(slurm, {{"SLURM_STEP_TASKS_PER_NODE", "many"}})), "'many'"));
}

TEST_CASE("of several ranks, none takes itself for the only one since a variable is missing") {
  CHECK(contains(refusal({{"RINGLET_SIZE", "2"}}), "RINGLET_RANK is not set"));
  variables const some{{"RANK", "0"}, {"WORLD_SIZE", "2"}};
  CHECK(contains(refusal(some), "RANK and WORLD_SIZE are set, but not MASTER_ADDR"));
  CHECK(contains(refusal(with(some, {{"MASTER_ADDR", "10.0.0.1"}})), "but not MASTER_PORT"));
  CHECK(contains(refusal({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}),
                 "PMI_RANK and PMI_SIZE are set, but not MPI_LOCALNRANKS"));
  CHECK(read(with(some, {{"WORLD_SIZE", "1"}})).launcher == "none");
  CHECK(read({{"RANK", "1"}}).launcher == "none");
  CHECK(read(with(open_mpi, some)).launcher == "Open MPI");
}

TEST_CASE("C75 a rank that is not below the size is refused with both variables") {
  auto const words = refusal(with(torchrun, {{"RANK", "8"}}));
  CHECK(contains(words, "RANK is 8"));
  CHECK(contains(words, "WORLD_SIZE is 8"));
}

TEST_CASE("an empty variable is not set") { CHECK(read({{"RINGLET_RANK", ""}, {"RANK", ""}}).launcher == "none"); }

TEST_CASE("the port comes from the job by a fixed rule") {
  CHECK(ringlet::detail::derived_port("") == 20480 + 2166136261u % 8192);
  CHECK(ringlet::detail::derived_port("a") == 20480 + 0xe40c292cu % 8192);  // FNV-1a's published value for "a"
}

TEST_CASE("by default the process's own variables are read") {
  ::setenv("RINGLET_RANK", "3", 1);
  ::setenv("RINGLET_SIZE", "9", 1);
  CHECK(ringlet::environment().rank == 3);
  ::unsetenv("RINGLET_RANK");
  ::unsetenv("RINGLET_SIZE");
}
