// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "measure_type.hpp"

namespace perf {
template void measure_type<float>(any_communicator&, options const&, char const*, report&);
template void measure_type<double>(any_communicator&, options const&, char const*, report&);
template void measure_type<ringlet::float16>(any_communicator&, options const&, char const*, report&);
}  // namespace perf
