// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ringlet/combine.hpp"
#include "ringlet/config.hpp"

// The loops under `combine` for workers of many threads; the host's are in kernels.hpp. Neighbouring threads touch
// neighbouring 16 bytes, and each has several loads under way before it needs the first.

#if defined(__CUDA_ARCH__)
#define RINGLET_UNROLL _Pragma("unroll")
#else
#define RINGLET_UNROLL
#endif

namespace ringlet::detail {

// Packs of an operand that a thread has under way. 512 threads, two operands and 4 packs are 64 KiB a block, more than
// what a device's memory or the link to a peer delivers in the time that a load takes.
inline constexpr std::size_t packs_at_once = 4;

// What one load or store moves, 16 bytes and for narrower types on the wire fewer. It may stand for elements of any type.
template <std::size_t Bytes>
struct [[gnu::may_alias]] alignas(Bytes) raw {
  std::conditional_t<Bytes % 4 == 0, std::uint32_t, std::uint8_t> part[Bytes % 4 == 0 ? Bytes / 4 : Bytes];
};

// N elements in registers.
template <class T, std::size_t N>
struct pack {
  T at[N];

  RINGLET_HD static pack load(T const* from) {
    return __builtin_bit_cast(pack, *reinterpret_cast<raw<sizeof(pack)> const*>(from));
  }
  RINGLET_HD void store(T* to) const {
    *reinterpret_cast<raw<sizeof(pack)>*>(to) = __builtin_bit_cast(raw<sizeof(pack)>, *this);
  }
};

// How many elements go in a pack when a loop works on two types, or 0 if they go one at a time.
template <class T>
inline constexpr bool packable = sizeof(T) <= 16 && (sizeof(T) & (sizeof(T) - 1)) == 0;
template <class T, class W = T>
inline constexpr std::size_t pack_size = packable<T>&& packable<W>
                                             ? 16 / (sizeof(T) > sizeof(W) ? sizeof(T) : sizeof(W))
                                             : 0;

// Whether what is at `p`, if anything, can be accessed in packs of N.
template <std::size_t N, class T>
RINGLET_HD bool fits(T const* p) {
  return reinterpret_cast<std::uintptr_t>(p) % (N * sizeof(T)) == 0;
}

// The values of N elements, as `arithmetic` says.
RINGLET_ANY_EXEC
template <std::size_t N, class Arithmetic>
RINGLET_HD pack<typename Arithmetic::wire, N> folded(pack<typename Arithmetic::wire, N> const* got,
                                                     pack<typename Arithmetic::element, N> const* own,
                                                     Arithmetic const& how, bool last) {
  pack<typename Arithmetic::wire, N> value;
  operands<Arithmetic> const at{nullptr, nullptr, got != nullptr ? got->at : nullptr,
                                own != nullptr ? own->at : nullptr};
  RINGLET_UNROLL
  for (std::size_t i = 0; i < N; ++i) value.at[i] = folded(at, i, how, last);
  return value;
}
template <class T, class W, std::size_t N>
RINGLET_HD pack<T, N> converted_to(pack<W, N> const& from) {
  if constexpr (std::is_same_v<T, W>) {
    return from;
  } else {
    pack<T, N> to;
    RINGLET_UNROLL
    for (std::size_t i = 0; i < N; ++i) to.at[i] = static_cast<T>(from.at[i]);
    return to;
  }
}

// How many elements stand before the first that is aligned to a pack of N.
template <std::size_t N, class T>
RINGLET_HD std::size_t before_packs(T const* p) {
  return (0 - reinterpret_cast<std::uintptr_t>(p)) % (N * sizeof(T)) / sizeof(T);
}

// Calls `f(count, i)` for a worker's share of n things, with `count` as a type whose value is how many are to be done at
// once: i, and the next ones `size()` apart.
RINGLET_ANY_EXEC
template <kernel_worker Worker, class F>
RINGLET_HD void share(Worker w, std::size_t n, F f) {
  std::size_t const apart = w.size();
  std::size_t i = w.rank();
  for (; i + (packs_at_once - 1) * apart < n; i += packs_at_once * apart)
    f(std::integral_constant<std::size_t, packs_at_once>{}, i);
  for (; i < n; i += apart) f(std::integral_constant<std::size_t, 1>{}, i);
}

template <std::size_t N, bool Got, bool Own, class Arithmetic>
struct fold_packs {
  using W = typename Arithmetic::wire;
  using T = typename Arithmetic::element;

  operands<Arithmetic> at;
  Arithmetic const* how;
  bool last;
  std::size_t apart;

  RINGLET_ANY_EXEC
  template <class Count>
  RINGLET_HD void operator()(Count, std::size_t first) const {
    constexpr std::size_t M = Count::value;
    pack<W, N> got[M];
    pack<T, N> own[M];
    RINGLET_UNROLL
    for (std::size_t k = 0; k < M; ++k) {
      if constexpr (Got) got[k] = pack<W, N>::load(at.got + (first + k * apart) * N);
      if constexpr (Own) own[k] = pack<T, N>::load(at.own + (first + k * apart) * N);
    }
    RINGLET_UNROLL
    for (std::size_t k = 0; k < M; ++k) {
      std::size_t const i = (first + k * apart) * N;
      auto const value = folded<N>(Got ? got + k : nullptr, Own ? own + k : nullptr, *how, last);
      if (at.wire != nullptr) value.store(at.wire + i);
      if (at.result != nullptr) converted_to<T>(value).store(at.result + i);
    }
  }
};

// The loop for what is given. Where that is impossible for an arithmetic, there is no code.
RINGLET_ANY_EXEC
template <std::size_t N, kernel_worker Worker, class Arithmetic>
RINGLET_HD void fold_in_packs(Worker w, operands<Arithmetic> const& at, std::size_t packs, Arithmetic const& how,
                              bool last) {
  constexpr bool as_is = std::is_same_v<typename Arithmetic::wire, typename Arithmetic::element>;
  std::size_t const apart = w.size();
  if (at.got != nullptr && at.own != nullptr) {
    if constexpr (!Arithmetic::keeps) share(w, packs, fold_packs<N, true, true, Arithmetic>{at, &how, last, apart});
  } else if (at.own != nullptr) {
    if constexpr (!as_is || Arithmetic::lifts || Arithmetic::finishes)
      share(w, packs, fold_packs<N, false, true, Arithmetic>{at, &how, last, apart});
  } else {
    if constexpr (!as_is) share(w, packs, fold_packs<N, true, false, Arithmetic>{at, &how, last, apart});
  }
}

// Found by its arguments, in the place of the loop for any worker, which takes elements one at a time. Types of an odd size
// are left to that.
RINGLET_ANY_EXEC
template <kernel_worker Worker, class Arithmetic>
RINGLET_HD constexpr void fold(Worker w, operands<Arithmetic> const& at, std::size_t n, Arithmetic const& how,
                               bool last, bool) {
  constexpr std::size_t N = pack_size<typename Arithmetic::element, typename Arithmetic::wire>;
  if constexpr (N == 0) {
    fold_each(at, w.rank(), w.size(), n, how, last);
  } else {
    std::size_t head = at.own != nullptr ? before_packs<N>(at.own) : before_packs<N>(at.got);
    if (head > n) head = n;
    operands<Arithmetic> const body = at.from(head);
    if (fits<N>(body.wire) && fits<N>(body.result) && fits<N>(body.got) && fits<N>(body.own)) {
      std::size_t const packs = (n - head) / N;
      fold_in_packs<N>(w, body, packs, how, last);
      fold_each(at, w.rank(), w.size(), head, how, last);
      fold_each(at, head + packs * N + w.rank(), w.size(), n, how, last);
    } else {
      fold_in_packs<1>(w, at, n, how, last);
    }
  }
}

template <std::size_t N, class T>
struct copy_packs {
  T* wire;
  T* result;
  T const* from;
  std::size_t apart;

  template <class Count>
  RINGLET_HD void operator()(Count, std::size_t first) const {
    constexpr std::size_t M = Count::value;
    pack<T, N> value[M];
    RINGLET_UNROLL
    for (std::size_t k = 0; k < M; ++k) value[k] = pack<T, N>::load(from + (first + k * apart) * N);
    RINGLET_UNROLL
    for (std::size_t k = 0; k < M; ++k) {
      if (wire != nullptr) value[k].store(wire + (first + k * apart) * N);
      if (result != nullptr) value[k].store(result + (first + k * apart) * N);
    }
  }
};

RINGLET_ANY_EXEC
template <kernel_worker Worker, class T>
RINGLET_HD constexpr void copy_each(Worker w, T* wire, T* result, T const* from, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin + w.rank(); i < end; i += w.size()) {
    if (wire != nullptr) wire[i] = from[i];
    if (result != nullptr) result[i] = from[i];
  }
}

RINGLET_ANY_EXEC
template <kernel_worker Worker, class T>
RINGLET_HD constexpr void copy(Worker w, T* wire, T* result, T const* from, std::size_t n, bool) {
  constexpr std::size_t N = pack_size<T>;
  if constexpr (N == 0) {
    copy_each(w, wire, result, from, 0, n);
  } else {
    std::size_t head = before_packs<N>(from);
    if (head > n) head = n;
    T* const body_wire = wire != nullptr ? wire + head : nullptr;
    T* const body_result = result != nullptr ? result + head : nullptr;
    if (fits<N>(body_wire) && fits<N>(body_result)) {
      std::size_t const packs = (n - head) / N;
      share(w, packs, copy_packs<N, T>{body_wire, body_result, from + head, w.size()});
      copy_each(w, wire, result, from, 0, head);
      copy_each(w, wire, result, from, head + packs * N, n);
    } else {
      share(w, n, copy_packs<1, T>{wire, result, from, w.size()});
    }
  }
}

}  // namespace ringlet::detail
