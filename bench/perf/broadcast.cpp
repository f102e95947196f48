// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "measure_type.hpp"

namespace perf {
void measure_broadcast(any_communicator& any, options const& o, char const* type, std::size_t bytes, report& to) {
  with_series<std::uint8_t>(any, o, type, to, [&](auto its) {
    its.unit = bytes;
    its.template sizes<ringlet::collective::broadcast, ringlet::keep>("none");
  });
}
}  // namespace perf
