// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <type_traits>

#include "ringlet/config.hpp"
#include "ringlet/detail/kernels.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/worker.hpp"

namespace ringlet {

/// The one function that touches elements: what a step of a schedule does to the values of a slice.
///
/// With `got` and `own`, each value is the operator's result; with one of them, it is that one (`own` lifted). Where
/// `last` and `own`, the value is finished. Then `wire[i] = W(value)` and `result[i] = T(W(value))`: see `arithmetic`.
///
/// Null means absent: at least one of `got` and `own` is given; `wire`, `result` or both may be null. `result` may be
/// `own`, and `wire` may be `got`; where T and W are the same type, `result` may be `got` (it landed at home). No other
/// memory overlaps. Pointers need be aligned for their type only. Work that would change nothing is left out.
///
/// Callable in constant expressions and on devices. On the host, `this_thread` runs vector code for what the processor
/// has, with the same bits whatever that is (the payload of a NaN aside).
/// @tparam Worker who executes; its members share the elements, and none waits for another
/// @tparam Arithmetic `arithmetic<T, Op>`
/// @param n how many elements each given pointer has
/// @param last whether `own` is the last contribution
RINGLET_ANY_EXEC
template <worker Worker, class Arithmetic>
RINGLET_HD constexpr void combine(Worker w, typename Arithmetic::wire* wire, typename Arithmetic::element* result,
                                  typename Arithmetic::wire const* got, typename Arithmetic::element const* own,
                                  std::size_t n, Arithmetic const& how, bool last) {
  constexpr bool as_is = std::is_same_v<typename Arithmetic::wire, typename Arithmetic::element>;
  if (n == 0) return;
  if constexpr (as_is) {
    bool const only_own = got == nullptr && !Arithmetic::lifts && !(Arithmetic::finishes && last);
    if (result == got || (result == own && only_own)) result = nullptr;
    if (Arithmetic::keeps || own == nullptr || only_own) {
      if (wire == got) wire = nullptr;
      return detail::copy(w, wire, result, got != nullptr ? got : own, n);
    }
  }
  if constexpr (!(as_is && Arithmetic::keeps))
    if (wire != nullptr || result != nullptr)
      detail::fold(w, detail::operands<Arithmetic>{wire, result, got, own}, n, how, last);
}

}  // namespace ringlet
