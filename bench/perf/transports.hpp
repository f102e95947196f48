// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "ringlet/bootstrap/launch.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/transport/shared_memory.hpp"
#if !defined(SHARED_MEMORY_ALONE)
#include "../../examples/07_own_transport.hpp"
#if __has_include(<rdma/fabric.h>) && !defined(__CUDACC__)
#define WITH_FABRIC
#include "ringlet/transport/fabric.hpp"
#include "ringlet/transport/mixed.hpp"
#endif
#include "ringlet/transport/cuda_ipc.hpp"
#include "ringlet/transport/in_process.hpp"
#if defined(__CUDACC__)
#include "ringlet/transport/cuda_runtime.hpp"
#else
#include "ringlet/transport/emulated_runtime.hpp"
#endif
#endif  // SHARED_MEMORY_ALONE: see meson.build

namespace perf {

/// A transport that ringlet-perf can measure.
/// @tparam X the transport
template <class X>
struct entry {
  using type = X;
  char const* name;       ///< for --transport
  ringlet::ranks_as are;  ///< what its ranks are when there is no launcher
};

/// What plays devices where the program was not built by nvcc; tables show the name.
inline constexpr char const* emulated_devices = "cuda_ipc (emulated)";
/// Whether a transport's ranks have devices.
template <class X>
inline constexpr bool has_devices = requires {
  typename X::runtime;
};

#if defined(SHARED_MEMORY_ALONE)
inline constexpr std::tuple others{};
#else
#if defined(WITH_FABRIC)
/// Which ranks share a host: as it is, or as if so many that follow each other did.
struct real_or_made_up_hosts {
  static inline int ranks_on_each = 0;  ///< 0: as it is
  template <ringlet::meeting M>
  std::vector<std::string> operator()(M& m, ringlet::time_point until) const {
    auto names = ringlet::same_host{}(m, until);
    for (std::size_t rank = 0; rank < names.size() && ranks_on_each > 0; ++rank)
      names[rank] += "/" + std::to_string(rank / static_cast<std::size_t>(ranks_on_each));
    return names;
  }
};
inline constexpr std::tuple over_libfabric{
    entry<ringlet::fabric>{"fabric", ringlet::ranks_as::processes},
    entry<ringlet::mixed<ringlet::shared_memory, ringlet::fabric, real_or_made_up_hosts>>{
        "mixed", ringlet::ranks_as::processes}};
#else
inline constexpr std::tuple over_libfabric{};
#endif

#if defined(__CUDACC__)
inline constexpr std::tuple over_devices{entry<ringlet::cuda_ipc<>>{"cuda_ipc", ringlet::ranks_as::processes}};
#else
inline constexpr std::tuple over_devices{
    entry<ringlet::cuda_ipc<ringlet::emulated_runtime>>{emulated_devices, ringlet::ranks_as::processes}};
#endif

/// What a whole ringlet-perf measures beside shared memory. To measure another transport, add its line.
inline constexpr auto others = std::tuple_cat(
    std::tuple{
        entry<ringlet::in_process>{"in_process", ringlet::ranks_as::threads},
        entry<sockets>{"sockets", ringlet::ranks_as::processes},
    },
    over_libfabric, over_devices);
#endif
/// All that this program measures.
inline constexpr auto transports =
    std::tuple_cat(std::tuple{entry<ringlet::shared_memory>{"shared_memory", ringlet::ranks_as::processes}}, others);

template <class... X>
std::variant<ringlet::communicator<X>...> any_of(std::tuple<entry<X>...> const&);
/// A communicator over one of the transports above.
using any_communicator = decltype(any_of(transports));

}  // namespace perf
