// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "options.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/schedule.hpp"

namespace perf {

template <class Op>
struct named {
  using type = Op;
  char const* name;
};
/// nccl-tests' operators.
inline constexpr std::tuple operators{named<ringlet::sum>{"sum"}, named<ringlet::product>{"prod"},
                                      named<ringlet::minimum>{"min"}, named<ringlet::maximum>{"max"},
                                      named<ringlet::average>{"avg"}};

/// Which reductions are built. All of them would take minutes to compile; one that is missed is added here.
/// @tparam What the collective
/// @tparam T the element
/// @tparam Op the operator
template <ringlet::collective What, class T, class Op>
inline constexpr bool built = std::is_same_v<Op, ringlet::sum> ||
                              (What == ringlet::collective::all_reduce &&
                               (std::is_same_v<T, float> || std::is_same_v<T, std::int32_t>));

/// The same where ranks have devices: kernels take longer to compile.
template <ringlet::collective What, class T, class Op>
inline constexpr bool built_for_devices = !ringlet::rooted(What) && std::is_same_v<T, float> &&
                                          (std::is_same_v<Op, ringlet::keep> || std::is_same_v<Op, ringlet::sum>);

/// Whether what the options ask for is built for elements of one type. Of "all" operators there is always one.
template <class T>
bool builds(options const& o) {
  if (o.op == "all" || (o.collective != "all_reduce" && o.collective != "reduce_scatter" && o.collective != "reduce"))
    return true;
  auto const one = [&]<class Op>(named<Op> op) {
    return o.op == op.name && (o.collective == "all_reduce" ? built<ringlet::collective::all_reduce, T, Op>
                                                            : built<ringlet::collective::reduce, T, Op>);
  };
  return std::apply([&](auto... op) { return (one(op) || ...); }, operators);
}

}  // namespace perf
