// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "measure_type.hpp"

namespace perf {

void measure_moves(any_communicator& any, options const& o, char const* type, std::size_t bytes, report& to) {
  with_series<std::uint8_t>(any, o, type, to, [&](auto its) {
    using ringlet::collective;
    its.unit = bytes;
    if (o.collective == "broadcast")
      its.template sizes<collective::broadcast, ringlet::keep>("none");
    else
      its.template sizes<collective::all_gather, ringlet::keep>("none");
  });
}

void gather(any_communicator& any, std::span<std::uint8_t> all) {
  std::visit([&](auto& comm) { ringlet::all_gather(comm, all); }, any);
}

}  // namespace perf
