// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Any implementation of MPI.
#include <mpi.h>

#include "measure.hpp"

namespace {

// Up to the first comma or line: some say everything about themselves.
std::string version_text() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string name(text, static_cast<std::size_t>(length));
  name = name.substr(0, name.find_first_of(",\n"));
  for (char& c : name)
    if (c == '\t' || c == '"' || c == '\\') c = ' ';
  return name;
}
int of_world(int (*f)(MPI_Comm, int*)) {
  int value = 0;
  f(MPI_COMM_WORLD, &value);
  return value;
}

class adapter : public peers::library {
 public:
  adapter() : library(version_text(), of_world(MPI_Comm_rank), of_world(MPI_Comm_size)) {}

  void all_reduce(float const* in, float* out, std::size_t n) override {
    MPI_Allreduce(in, out, static_cast<int>(n), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void reduce_scatter(float const* in, float* out, std::size_t n) override {
    MPI_Reduce_scatter_block(in, out, static_cast<int>(n), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void all_gather(float const* in, float* out, std::size_t n) override {
    MPI_Allgather(in, static_cast<int>(n), MPI_FLOAT, out, static_cast<int>(n), MPI_FLOAT, MPI_COMM_WORLD);
  }
  double largest(double mine) override {
    double all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
  }
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int const status = peers::run(argc, argv, [](peers::task const& t) {
    adapter a;
    peers::pin(a.rank);
    return peers::measure(a, t);
  });
  // Where one rank fails alone, others wait for it.
  if (status == 2) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
  return status;
}
