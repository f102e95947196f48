// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/device_runtime.hpp"

#include "ringlet/transport/emulated_runtime.hpp"

using namespace ringlet;

static_assert(device_runtime<emulated_runtime>);

// --- each of what is asked for must be there ---

struct without_sharing : emulated_runtime {
  static handle share(void const*) = delete;
};
struct without_events : emulated_runtime {
  static bool passed(event const&) = delete;
};
struct without_values : emulated_runtime {
  static void wait_value(stream, void*, std::uint64_t) = delete;
};
struct with_handles_that_fit_no_store : emulated_runtime {
  struct handle {
    char bytes[65];
  };
  static handle share(void const*);
  static void* open(handle const&);
};
struct without_launch : emulated_runtime {
  template <class Body>
  static void launch(stream, unsigned, unsigned, Body const&) = delete;
};
static_assert(!device_runtime<without_sharing> && !device_runtime<without_events> && !device_runtime<without_values> &&
              !device_runtime<with_handles_that_fit_no_store> && !device_runtime<without_launch>);

// --- devices are told apart by all their bytes ---

constexpr device_id numbered(int last) {
  device_id id;
  id.bytes[15] = static_cast<unsigned char>(last);
  return id;
}
static_assert(numbered(1) == numbered(1) && !(numbered(1) == numbered(2)));
