// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// oneCCL, on processors, started by MPI's launcher.
#include <mpi.h>

#include <oneapi/ccl.hpp>

#include "measure.hpp"

namespace {

std::string version_text() {
  auto const v = ccl::get_library_version();
  return "oneCCL " + std::to_string(v.major) + '.' + std::to_string(v.minor) + '.' + std::to_string(v.update);
}
int of_world(int (*f)(MPI_Comm, int*)) {
  int value = 0;
  f(MPI_COMM_WORLD, &value);
  return value;
}

class adapter : public peers::library {
 public:
  adapter()
      : library(version_text(), of_world(MPI_Comm_rank), of_world(MPI_Comm_size)),
        comm_(ccl::create_communicator(size, rank, store())) {}

  void all_reduce(float const* in, float* out, std::size_t n) override {
    ccl::allreduce(in, out, n, ccl::reduction::sum, comm_).wait();
  }
  void reduce_scatter(float const* in, float* out, std::size_t n) override {
    ccl::reduce_scatter(in, out, n, ccl::reduction::sum, comm_).wait();
  }
  void all_gather(float const* in, float* out, std::size_t n) override { ccl::allgather(in, out, n, comm_).wait(); }
  double largest(double mine) override {
    double all = 0;
    ccl::allreduce(&mine, &all, 1, ccl::reduction::max, comm_).wait();
    return all;
  }

 private:
  // Where ranks meet: rank 0 makes it, MPI tells the others.
  ccl::shared_ptr_class<ccl::kvs> store() const {
    ccl::shared_ptr_class<ccl::kvs> made;
    ccl::kvs::address_type address;
    if (rank == 0) address = (made = ccl::create_main_kvs())->get_address();
    MPI_Bcast(address.data(), static_cast<int>(address.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
    return rank == 0 ? made : ccl::create_kvs(address);
  }

  ccl::communicator comm_;
};

}  // namespace

int main(int argc, char** argv) {
  ccl::init();
  MPI_Init(&argc, &argv);
  int const status = peers::run(argc, argv, [](peers::task const& t) {
    adapter a;
    peers::pin(a.rank);
    return peers::measure(a, t);
  });
  if (status == 2) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
  return status;
}
