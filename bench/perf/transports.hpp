// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tuple>
#include <variant>

#include "../../examples/07_own_transport.hpp"
#include "ringlet/bootstrap/launch.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/transport/in_process.hpp"
#include "ringlet/transport/shared_memory.hpp"

namespace perf {

/// A transport that ringlet-perf can measure.
/// @tparam X the transport
template <class X>
struct entry {
  using type = X;
  char const* name;       ///< for --transport
  ringlet::ranks_as are;  ///< what its ranks are when there is no launcher
};

/// To measure another transport, add its line.
inline constexpr std::tuple transports{
    entry<ringlet::shared_memory>{"shared_memory", ringlet::ranks_as::processes},
    entry<ringlet::in_process>{"in_process", ringlet::ranks_as::threads},
    entry<sockets>{"sockets", ringlet::ranks_as::processes},
};

template <class... X>
std::variant<ringlet::communicator<X>...> any_of(std::tuple<entry<X>...> const&);
/// A communicator over one of the transports above.
using any_communicator = decltype(any_of(transports));

}  // namespace perf
