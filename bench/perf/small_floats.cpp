// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "measure_type.hpp"

namespace perf {
template void measure_type<ringlet::bfloat16>(any_communicator&, options const&, char const*, report&);
template void measure_type<ringlet::float8_e4m3>(any_communicator&, options const&, char const*, report&);
template void measure_type<ringlet::float8_e5m2>(any_communicator&, options const&, char const*, report&);
}  // namespace perf
