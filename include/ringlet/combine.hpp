// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <type_traits>

#include "ringlet/config.hpp"
#include "ringlet/detail/kernels.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/worker.hpp"

namespace ringlet {

namespace detail {

RINGLET_ANY_EXEC
template <worker Worker, class Arithmetic>
RINGLET_HD constexpr void combine_as(Worker w, operands<Arithmetic> at, std::size_t n, Arithmetic const& how, bool last,
                                     bool far, bool wire_far) {
  constexpr bool as_is = std::is_same_v<typename Arithmetic::wire, typename Arithmetic::element>;
  if constexpr (as_is) {
    bool const only_own = at.got == nullptr && !Arithmetic::lifts && !(Arithmetic::finishes && last);
    if (at.result == at.got || (at.result == at.own && only_own)) at.result = nullptr;
    if (Arithmetic::keeps || at.own == nullptr || only_own) {
      if (at.wire == at.got) at.wire = nullptr;
      return copy(w, at.wire, at.result, at.got != nullptr ? at.got : at.own, n, far);
    }
  }
  if constexpr (!(as_is && Arithmetic::keeps))
    if (at.wire != nullptr || at.result != nullptr) fold(w, at, n, how, last, far, wire_far);
}

// On the host, one function for all who call it: what it does is worth a call. The pointers come in registers: as a
// structure they would be stored, and waited for, only to be loaded again.
template <class Arithmetic>
[[gnu::noinline]] void combine_here(typename Arithmetic::wire* wire, typename Arithmetic::element* result,
                                    typename Arithmetic::wire const* got, typename Arithmetic::element const* own,
                                    std::size_t n, Arithmetic const& how, bool last, bool far, bool wire_far) {
  combine_as(this_thread{}, operands<Arithmetic>{wire, result, got, own}, n, how, last, far, wire_far);
}

}  // namespace detail

/// The one function that touches elements: what a step of a schedule does to the values of a slice.
///
/// With `got` and `own`, each value is the operator's result; with one of them, it is that one (`own` lifted). Where
/// `last` and `own`, the value is finished. Then `wire[i] = W(value)` and `result[i] = T(W(value))`: see `arithmetic`.
///
/// Null means absent: at least one of `got` and `own` is given; `wire`, `result` or both may be null. `result` may be
/// `own`, and `wire` may be `got`; without `own`, where T and W are the same type, `result` may be `got` (it landed at
/// home). No other memory overlaps. Pointers need be aligned for their type only. Work that would change nothing is
/// left out.
///
/// Callable in constant expressions and on devices. On the host, `this_thread` runs vector code for what the processor
/// has, with the same bits whatever that is (the payload of a NaN aside).
/// @tparam Worker who executes; its members share the elements, and none waits for another
/// @tparam Arithmetic `arithmetic<T, Op>`
/// @param n how many elements each given pointer has
/// @param last whether `own` is the last contribution
/// @param far whether `result` is part of a buffer larger than the caches: then it is stored past them (on the host)
/// @param wire_far with `far`: whether `wire` is, too, and no slot that the next rank reads at once
RINGLET_ANY_EXEC
template <worker Worker, class Arithmetic>
RINGLET_HD constexpr void combine(Worker w, typename Arithmetic::wire* wire, typename Arithmetic::element* result,
                                  typename Arithmetic::wire const* got, typename Arithmetic::element const* own,
                                  std::size_t n, Arithmetic const& how, bool last, bool far = false,
                                  bool wire_far = false) {
  if (n == 0) return;
#if !defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<Worker, this_thread>)
    if (!__builtin_is_constant_evaluated())
      return detail::combine_here(wire, result, got, own, n, how, last, far, wire_far);
#endif
  detail::combine_as(w, detail::operands<Arithmetic>{wire, result, got, own}, n, how, last, far, wire_far);
}

}  // namespace ringlet
