// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ringlet/combine.hpp"
#include "ringlet/config.hpp"
#include "ringlet/element.hpp"
#include "ringlet/kernel.hpp"

// The loops under `combine` for workers of many threads; the host's are in kernels.hpp. Neighbouring threads touch
// neighbouring 16 bytes, and each has several loads under way before it needs the first.

#if defined(__CUDA_ARCH__)
#define RINGLET_UNROLL _Pragma("unroll")
#define RINGLET_NO_UNROLL _Pragma("unroll 1")
#else
#define RINGLET_UNROLL
#define RINGLET_NO_UNROLL
#endif

namespace ringlet::detail {

// Packs that a thread has under way, whatever they are operands of: 512 threads with 4 are 32 KiB a block, as much as a
// device's memory or the link to a peer delivers in the time that a load takes. Small types, calculated with as floats,
// take more registers and get fewer, ringlet's own ones even fewer than CUDA's, which hardware converts.
template <class T>
inline constexpr std::size_t packs_at_once = sizeof(T) == 2 ? 3 : 4;
template <int ExponentBits, int MantissaBits, bool Infinite>
inline constexpr std::size_t packs_at_once<small_float<ExponentBits, MantissaBits, Infinite>> =
    ExponentBits + MantissaBits == 15 ? 2 : 1;

// What one load or store moves, 16 bytes and for narrower types on the wire fewer. It stands for elements of any type.
template <std::size_t Bytes, std::size_t Alignment>
struct [[gnu::may_alias]] alignas(Alignment) raw {
  std::conditional_t<Bytes % 4 == 0, std::uint32_t, std::uint8_t> part[Bytes % 4 == 0 ? Bytes / 4 : Bytes];
};

// N elements in registers. One element by itself is where its type may be: two floats as a complex number at 4 bytes.
template <class T, std::size_t N>
struct pack {
  T at[N];

  RINGLET_HD static pack load(T const* from) {
    return __builtin_bit_cast(pack, *reinterpret_cast<in_memory const*>(from));
  }
  RINGLET_HD void store(T* to) const { *reinterpret_cast<in_memory*>(to) = __builtin_bit_cast(in_memory, *this); }

 private:
  using in_memory = raw<sizeof(T) * N, N == 1 ? alignof(T) : sizeof(T) * N>;
};

// How many elements go in a pack when a loop works on two types, or 0 if they go one at a time: as many as fit into 16
// bytes. Bytes are calculated with in registers four times as wide, of which there are enough for 8.
template <class T>
inline constexpr bool packable = sizeof(T) <= 16 && (sizeof(T) & (sizeof(T) - 1)) == 0;
template <class T, class W = T>
inline constexpr std::size_t pack_size = packable<T>&& packable<W> ? (sizeof(T) > sizeof(W) ? 16 / sizeof(T)
                                                                      : sizeof(W) == 1      ? 8
                                                                                            : 16 / sizeof(W))
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

// The packs of a loop that are a member's, `M` at a time: `i`, and the next ones `apart` apart, as far as they are
// below `end`.
template <std::size_t M>
struct at_once {
  std::size_t i, apart, end;

  RINGLET_HD std::size_t operator[](std::size_t k) const { return i + k * apart; }
  RINGLET_HD bool has(std::size_t k) const { return i + k * apart < end; }
};
// Calls `f` with a worker's share of n packs. What is beyond the end is left out, not done by another loop: code would
// be twice as large.
RINGLET_ANY_EXEC
template <std::size_t M, kernel_worker Worker, class F>
RINGLET_HD void share(Worker w, std::size_t n, F f) {
  RINGLET_NO_UNROLL
  for (std::size_t i = w.rank(); i < n; i += M * w.size()) f(at_once<M>{i, w.size(), n});
}

template <std::size_t N, bool Got, bool Own, class Arithmetic>
struct fold_packs {
  using W = typename Arithmetic::wire;
  using T = typename Arithmetic::element;

  operands<Arithmetic> at;
  Arithmetic const* how;
  bool last;

  RINGLET_ANY_EXEC
  template <std::size_t M>
  RINGLET_HD void operator()(at_once<M> i) const {
    pack<W, N> got[M];
    pack<T, N> own[M];
    RINGLET_UNROLL
    for (std::size_t k = 0; k < M; ++k) {
      if (!i.has(k)) continue;
      if constexpr (Got) got[k] = pack<W, N>::load(at.got + i[k] * N);
      if constexpr (Own) own[k] = pack<T, N>::load(at.own + i[k] * N);
    }
    RINGLET_UNROLL
    for (std::size_t k = 0; k < M; ++k) {
      if (!i.has(k)) continue;
      auto const value = folded<N>(Got ? got + k : nullptr, Own ? own + k : nullptr, *how, last);
      if (at.wire != nullptr) value.store(at.wire + i[k] * N);
      if (at.result != nullptr) converted_to<T>(value).store(at.result + i[k] * N);
    }
  }
};

// The loop for what is given. Where that is impossible for an arithmetic, there is no code.
RINGLET_ANY_EXEC
template <std::size_t N, kernel_worker Worker, class Arithmetic>
RINGLET_HD void fold_in_packs(Worker w, operands<Arithmetic> const& at, std::size_t packs, Arithmetic const& how,
                              bool last) {
  constexpr bool as_is = std::is_same_v<typename Arithmetic::wire, typename Arithmetic::element>;
  constexpr std::size_t M = N == 1 ? 1 : (packs_at_once<typename Arithmetic::element> + 1) / 2;  // of two operands
  if (at.got != nullptr && at.own != nullptr) {
    if constexpr (!Arithmetic::keeps) share<M>(w, packs, fold_packs<N, true, true, Arithmetic>{at, &how, last});
  } else if (at.own != nullptr) {
    if constexpr (!as_is || Arithmetic::lifts || Arithmetic::finishes)
      share<M>(w, packs, fold_packs<N, false, true, Arithmetic>{at, &how, last});
  } else {
    if constexpr (!as_is) share<M>(w, packs, fold_packs<N, true, false, Arithmetic>{at, &how, last});
  }
}

// What of n elements goes in packs, from `begin` to `end`; what is before and behind goes one at a time.
struct packed_part {
  std::size_t begin, end, n;

  template <std::size_t N, class T>
  RINGLET_HD static packed_part find(T const* aligned, std::size_t n) {
    std::size_t const head = before_packs<N>(aligned);
    return head < n ? packed_part{head, head + (n - head) / N * N, n} : packed_part{n, n, n};
  }
  // Calls `f(first, count)` for the two parts that go one at a time. Twice the same code, not two pieces of code.
  template <class F>
  RINGLET_HD void rest(F f) const {
    RINGLET_NO_UNROLL
    for (int part = 0; part < 2; ++part) f(part == 0 ? 0 : end, part == 0 ? begin : n - end);
  }
};

// Found by its arguments, in the place of the loop for any worker, which takes elements one at a time. Types of an odd
// size are left to that.
RINGLET_ANY_EXEC
template <kernel_worker Worker, class Arithmetic>
RINGLET_HD constexpr void fold(Worker w, operands<Arithmetic> const& at, std::size_t n, Arithmetic const& how,
                               bool last, bool, bool) {
  constexpr std::size_t N = pack_size<typename Arithmetic::element, typename Arithmetic::wire>;
  if constexpr (N == 0) {
    fold_each(at, w.rank(), w.size(), n, how, last);
  } else {
    auto part = at.own != nullptr ? packed_part::find<N>(at.own, n) : packed_part::find<N>(at.got, n);
    operands<Arithmetic> const body = at.from(part.begin);
    if (fits<N>(body.wire) && fits<N>(body.result) && fits<N>(body.got) && fits<N>(body.own))
      fold_in_packs<N>(w, body, (part.end - part.begin) / N, how, last);
    else
      part = {n, n, n};
    part.rest([&](std::size_t first, std::size_t count) { fold_in_packs<1>(w, at.from(first), count, how, last); });
  }
}

template <std::size_t N, class T>
struct copy_packs {
  T* wire;
  T* result;
  T const* from;

  template <std::size_t M>
  RINGLET_HD void operator()(at_once<M> i) const {
    pack<T, N> value[M];
    RINGLET_UNROLL
    for (std::size_t k = 0; k < M; ++k)
      if (i.has(k)) value[k] = pack<T, N>::load(from + i[k] * N);
    RINGLET_UNROLL
    for (std::size_t k = 0; k < M; ++k) {
      if (!i.has(k)) continue;
      if (wire != nullptr) value[k].store(wire + i[k] * N);
      if (result != nullptr) value[k].store(result + i[k] * N);
    }
  }
};

RINGLET_ANY_EXEC
template <kernel_worker Worker, class T>
RINGLET_HD constexpr void copy(Worker w, T* wire, T* result, T const* from, std::size_t n, bool) {
  constexpr std::size_t N = pack_size<T>;
  auto const beyond = [](T* p, std::size_t i) { return p != nullptr ? p + i : nullptr; };
  if constexpr (N == 0) {
    for (std::size_t i = w.rank(); i < n; i += w.size()) {
      if (wire != nullptr) wire[i] = from[i];
      if (result != nullptr) result[i] = from[i];
    }
  } else {
    auto part = packed_part::find<N>(from, n);
    T* const body_wire = beyond(wire, part.begin);
    T* const body_result = beyond(result, part.begin);
    if (fits<N>(body_wire) && fits<N>(body_result))
      share<4>(w, (part.end - part.begin) / N, copy_packs<N, T>{body_wire, body_result, from + part.begin});
    else
      part = {n, n, n};
    part.rest([&](std::size_t first, std::size_t count) {
      share<1>(w, count, copy_packs<1, T>{beyond(wire, first), beyond(result, first), from + first});
    });
  }
}

}  // namespace ringlet::detail
