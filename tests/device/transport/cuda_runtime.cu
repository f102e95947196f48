// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transport over CUDA itself. Without a driver the program starts, finds no device, and skips (77). With one it
// checks one collective of each form among two processes.
#include "ringlet/transport/cuda_runtime.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <vector>

#include "ringlet/allocate.hpp"
#include "ringlet/bootstrap/launch.hpp"
#include "ringlet/on_stream.hpp"
#include "ringlet/transport/cuda_ipc.hpp"

namespace {

using R = ringlet::cuda_runtime;
using X = ringlet::cuda_ipc<>;
static_assert(ringlet::transport<X>);

int rank(ringlet::bootstrap<ringlet::memory_store> who, ringlet::device_form form, bool through_host) {
  R::use(who.rank % R::devices());
  ringlet::connect_options<X> o;
  o.timeout = std::chrono::seconds(20);
  o.transport.form = form;
  o.transport.through_host = through_host;
  o.transport.lanes = 4;
  auto comm = ringlet::connect<X>(who, o);
  auto const stream = R::make_stream();
  for (std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{100003}}) {
    auto const in = comm.allocate<float>(count), out = comm.allocate<float>(count);
    std::vector<float> mine(count), sums(count);
    for (std::size_t i = 0; i < count; ++i) mine[i] = static_cast<float>(i % 100);
    R::copy(stream, in.data(), mine.data(), count * sizeof(float));
    ringlet::all_reduce(ringlet::on(stream), comm, in, out);
    ringlet::barrier(ringlet::on(stream), comm);
    R::copy(stream, sums.data(), out.data(), count * sizeof(float));
    ringlet::wait(ringlet::on(stream), comm);
    for (std::size_t i = 0; i < count; ++i)
      if (sums[i] != mine[i] * static_cast<float>(comm.size())) {
        std::printf("element %zu of %zu is %g\n", i, count, sums[i]);
        return 1;
      }
  }
  if (who.rank == 0)
    std::printf("%d ranks, %s%s: right\n", who.size, comm.transport().stream_driven() ? "streams wait" : "kernels wait",
                comm.transport().why_through_host().empty() ? "" : ", through the host");
  R::destroy(stream);
  return 0;
}

}  // namespace

int main() {
  // Who asks for devices is a process of its own, for one that has used CUDA can fork no ranks.
  int found = 0;
  if (pid_t const asks = ::fork(); asks == 0)
    ::_exit(R::devices() != 0);
  else
    ::waitpid(asks, &found, 0);
  if (found == 0) {
    std::puts("skipped: no CUDA device");
    return 77;
  }
  int failed = 0;
  for (auto form : {ringlet::device_form::automatic, ringlet::device_form::stream})
    for (bool through_host : {false, true})
      failed += ringlet::launch(2, [&](auto who) { return rank(who, form, through_host); });
  return failed != 0;
}
