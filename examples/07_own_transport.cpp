// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Your own transport: the one of 07_own_transport.hpp, used like any other.
#include "07_own_transport.hpp"

#include <cstdio>
#include <stdexcept>
#include <vector>

#include "ringlet/ringlet.hpp"

// What the library asks of a transport and of its links, checked where it is written: an error here says what is
// missing.
static_assert(ringlet::transport<sockets>);
static_assert(ringlet::link<sockets, float>);
static_assert(ringlet::announcing_link<sockets>);  // so ranks that call different things find out

int main() {
  for (auto ranks : {ringlet::ranks_as::processes, ringlet::ranks_as::threads}) {
    int const failed = ringlet::launch(4,
                                       [](auto who) {
                                         auto comm = ringlet::connect<sockets>(who);
                                         std::vector<float> gradient(1'000'000, static_cast<float>(comm.rank()));
                                         ringlet::all_reduce(comm, gradient);
                                         for (float g : gradient)
                                           if (g != 0 + 1 + 2 + 3) throw std::runtime_error("a sum is wrong");
                                         if (comm.rank() == 0)
                                           std::printf("%zu sums over sockets, all right\n", gradient.size());
                                       },
                                       {.as = ranks});
    if (failed != 0) return 1;
  }
}
