// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "ringlet/bootstrap/from_environment.hpp"

// Real launchers start this very program, with an argument, as ranks. One that is not installed is skipped, and said.

namespace {

constexpr int ranks = 4;

int be_a_rank() {
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  try {
    auto self = ringlet::from_environment(deadline);
    ringlet::agree(self.bootstrap(), "settings", deadline);
    auto const values =
        ringlet::exchange(self.bootstrap(), "names", "rank " + std::to_string(self.where().rank), deadline);
    if (self.where().rank == 0) {
      std::printf("met: %s, %zu ranks, %d here, last is %s\n", self.where().launcher.c_str(), values.size(),
                  self.where().local_size, values.back().c_str());
    }
    return 0;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

std::string output_of(std::string const& command) {
  std::string all;
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe);
  for (char part[256]; std::fgets(part, sizeof part, pipe);) all += part;
  all += "exit " + std::to_string(::pclose(pipe));
  return all;
}

// `prefix` is what stands before the program.
void check_launcher(std::string const& program, std::string const& prefix, std::string const& name) {
  if (std::system(("command -v " + program + " > /dev/null").c_str()) != 0) {
    MESSAGE("skipped: " << program << " is not installed");
    return;
  }
  char self[4096] = "";
  REQUIRE(::readlink("/proc/self/exe", self, sizeof self - 1) > 0);
  std::string const said = output_of("timeout 60 " + prefix + " '" + self + "' be-a-rank");
  CAPTURE(said);
  CHECK(said.find("met: " + name + ", 4 ranks, 4 here, last is rank 3\n") != std::string::npos);
  CHECK(said.find("exit 0") != std::string::npos);
}

}  // namespace

TEST_CASE("Open MPI") {
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  check_launcher("mpirun.openmpi", "mpirun.openmpi --oversubscribe -n " + std::to_string(ranks), "Open MPI");
}

TEST_CASE("hydra") { check_launcher("mpiexec.hydra", "mpiexec.hydra -n " + std::to_string(ranks), "hydra"); }

TEST_CASE("hydra inside a job of Slurm") {
  check_launcher("mpiexec.hydra",
                 "env SLURM_PROCID=0 SLURM_NTASKS=9 SLURM_STEP_ID=0 mpiexec.hydra -launcher fork -rmk user -n " +
                     std::to_string(ranks),
                 "hydra");
}

TEST_CASE("torchrun") {
  check_launcher("torchrun", "torchrun --no-python --standalone --nproc_per_node=" + std::to_string(ranks), "torchrun");
}

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "be-a-rank") == 0) return be_a_rank();
  return doctest::Context(argc, argv).run();
}
