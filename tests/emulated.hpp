// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// What tests of device transports have in common: ranks over the emulated runtime.

#include <cstddef>

#include "ranks.hpp"
#include "ringlet/transport/cuda_ipc.hpp"
#include "ringlet/transport/emulated_runtime.hpp"

namespace tests {

using emulated = ringlet::emulated_runtime;
using over_emulated = ringlet::cuda_ipc<emulated>;

// A stream that goes with its scope.
class stream {
 public:
  stream() = default;
  stream(stream const&) = delete;
  ~stream() { emulated::destroy(stream_); }
  emulated::stream get() const { return stream_; }

 private:
  emulated::stream stream_ = emulated::make_stream();
};

// Few slots, so small that little input makes many rounds, and few blocks.
inline ringlet::connect_options<over_emulated> small_device(std::size_t lanes = 2) {
  ringlet::connect_options<over_emulated> o;
  o.transport.slots = 2;
  o.transport.slot_bytes = 256;
  o.transport.lanes = lanes;
  o.timeout = 20s;
  return o;
}

// Runs f(communicator) on n ranks that are processes with a device each, or with one among them. The process of the
// test makes no call to the runtime itself, for what it forks could make none then.
template <class F>
int on_devices(int n, F&& f, ringlet::connect_options<over_emulated> const& options = small_device(),
               bool one_device = false) {
  return launch(n, [&](self who) {
    emulated::use(one_device ? 0 : who.rank);
    auto comm = ringlet::connect<over_emulated>(who, options);
    f(comm);
  });
}
// The same with ranks that are threads of one process.
template <class F>
int on_devices_of_threads(int n, F&& f, ringlet::connect_options<over_emulated> const& options = small_device(),
                          bool one_device = false) {
  return launch(1, [&](self) {
    return launch(n,
                  [&](self who) {
                    emulated::use(one_device ? 0 : who.rank);
                    auto comm = ringlet::connect<over_emulated>(who, options);
                    f(comm);
                  },
                  {.as = ranks_as::threads});
  });
}

}  // namespace tests
