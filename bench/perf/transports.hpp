// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tuple>
#include <variant>

#include "../../examples/07_own_transport.hpp"
#include "ringlet/bootstrap/launch.hpp"
#include "ringlet/communicator.hpp"
#if __has_include(<rdma/fabric.h>)
#include "ringlet/transport/fabric.hpp"
#endif
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

#if __has_include(<rdma/fabric.h>)
inline constexpr std::tuple over_libfabric{entry<ringlet::fabric>{"fabric", ringlet::ranks_as::processes}};
#else
inline constexpr std::tuple over_libfabric{};
#endif

/// To measure another transport, add its line.
inline constexpr auto transports = std::tuple_cat(
    std::tuple{
        entry<ringlet::shared_memory>{"shared_memory", ringlet::ranks_as::processes},
        entry<ringlet::in_process>{"in_process", ringlet::ranks_as::threads},
        entry<sockets>{"sockets", ringlet::ranks_as::processes},
    },
    over_libfabric);

template <class... X>
std::variant<ringlet::communicator<X>...> any_of(std::tuple<entry<X>...> const&);
/// A communicator over one of the transports above.
using any_communicator = decltype(any_of(transports));

}  // namespace perf
