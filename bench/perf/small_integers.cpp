// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "measure_type.hpp"

namespace perf {
template void measure_type<std::int8_t>(any_communicator&, options const&, char const*, report&);
template void measure_type<std::uint8_t>(any_communicator&, options const&, char const*, report&);
template void measure_type<std::int32_t>(any_communicator&, options const&, char const*, report&);
}  // namespace perf
