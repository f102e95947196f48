// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ringlet/config.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/worker.hpp"

// The loops under `combine`. Vector code is left to the compiler, which gets loops it can do: of a fixed length, into
// local arrays that alias nothing, without branches. (With -O2, g++ 12 turns no others into vector code.) On x86-64
// they are compiled for AVX2, and the processor is asked once whether it has that; if not, elements are taken one at a
// time, which for most types still keeps up with memory, and spares every program half of this code.

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
#define RINGLET_X86 1
#else
#define RINGLET_X86 0
#endif

// Stores past the caches are invisible to sanitizers, so their builds do without.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RINGLET_SANITIZED 1
#elif defined(__has_feature)
#define RINGLET_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define RINGLET_SANITIZED 0
#endif

namespace ringlet::detail {

// What `combine` works on; null where absent.
template <class Arithmetic>
struct operands {
  typename Arithmetic::wire* wire;
  typename Arithmetic::element* result;
  typename Arithmetic::wire const* got;
  typename Arithmetic::element const* own;

  // Those that begin with element `i`.
  RINGLET_HD constexpr operands from(std::size_t i) const {
    return {wire != nullptr ? wire + i : nullptr, result != nullptr ? result + i : nullptr,
            got != nullptr ? got + i : nullptr, own != nullptr ? own + i : nullptr};
  }
};

// Whether all that is left to do is to add two values: the rest is copied, and needs no code here.
template <class Arithmetic>
inline constexpr bool always_adds = std::is_same_v<typename Arithmetic::wire, typename Arithmetic::element> &&
                                    !Arithmetic::keeps && !Arithmetic::lifts && !Arithmetic::finishes;

// The value of element `i`, as `arithmetic` says.
RINGLET_ANY_EXEC
template <class Arithmetic>
RINGLET_HD constexpr typename Arithmetic::wire folded(operands<Arithmetic> const& at, std::size_t i,
                                                      Arithmetic const& how, bool last) {
  using W = typename Arithmetic::wire;
  using A = typename Arithmetic::accumulator;
  if constexpr (always_adds<Arithmetic>)
    return static_cast<W>(how.add(static_cast<A>(at.got[i]), static_cast<A>(at.own[i])));
  if (at.own == nullptr) return at.got[i];
  bool const finish = Arithmetic::finishes && last;
  if constexpr (!Arithmetic::keeps)
    if (at.got != nullptr || Arithmetic::lifts || finish) {
      A v = how.lift(static_cast<A>(at.own[i]));
      if (at.got != nullptr) v = how.add(static_cast<A>(at.got[i]), v);
      return static_cast<W>(finish ? how.finish(v) : v);
    }
  return static_cast<W>(at.own[i]);
}

// Elements `begin`, `begin + step`, ... below `end`, one at a time.
RINGLET_ANY_EXEC
template <class Arithmetic>
RINGLET_HD constexpr void fold_each(operands<Arithmetic> const& at, std::size_t begin, std::size_t step,
                                    std::size_t end, Arithmetic const& how, bool last) {
  for (std::size_t i = begin; i < end; i += step) {
    auto const value = folded(at, i, how, last);
    if (at.wire != nullptr) at.wire[i] = value;
    if (at.result != nullptr) at.result[i] = static_cast<typename Arithmetic::element>(value);
  }
}

// The instruction sets that block loops are compiled for. Neither can fuse a product with a sum, so both give the same
// bits.
enum class level : std::uint8_t { baseline, avx2 };

#if RINGLET_X86
inline level best_level() {
  __builtin_cpu_init();
  unsigned a = 1, b = 0, c = 0, d = 0;  // leaf 1; __builtin_cpu_supports of clang 14 does not know F16C
  __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  bool const f16c = (c >> 29 & 1) != 0;
  return __builtin_cpu_supports("avx2") && f16c ? level::avx2 : level::baseline;
}
#else
constexpr level best_level() { return level::baseline; }
#endif

// The level in use, found out before main. Tests set it.
inline level chosen_level = best_level();

// Elements that are worked on at once: enough that what happens between the loops costs nothing, few enough that local
// arrays stay in the first cache and tails are short. Whole cache lines of most types.
template <class Arithmetic>
inline constexpr std::size_t block_size = sizeof(typename Arithmetic::element) == 1 ? 64 : 32;

// Whether blocks are of use: not for large types of users.
template <class Arithmetic>
inline constexpr bool in_blocks = sizeof(typename Arithmetic::wire) <= 16 &&
                                  sizeof(typename Arithmetic::element) <= 16 &&
                                  sizeof(typename Arithmetic::accumulator) <= 16;

// Room for N elements, not initialised.
template <class T, std::size_t N>
union alignas(64) room {
  room() {}
  T at[N];
};

#if RINGLET_X86
// F16C converts eight numbers in one instruction; compilers do not find it.
[[gnu::target("avx2,f16c"), gnu::always_inline]] inline void convert_eight(float* to, float16 const* from) {
  typedef short halves __attribute__((vector_size(16)));
  halves h;
  std::memcpy(&h, from, sizeof h);
  auto const f = __builtin_ia32_vcvtph2ps256(h);
  std::memcpy(to, &f, sizeof f);
}
[[gnu::target("avx2,f16c"), gnu::always_inline]] inline void convert_eight(float16* to, float const* from) {
  typedef float floats __attribute__((vector_size(32)));
  floats f;
  std::memcpy(&f, from, sizeof f);
  auto const h = __builtin_ia32_vcvtps2ph256(f, 0);  // 0: to nearest, ties to even
  std::memcpy(static_cast<void*>(to), &h, sizeof h);
}
template <std::size_t N, class To, class From>
[[gnu::target("avx2,f16c")]] inline void convert_f16c(To* to, From const* from) {
  for (std::size_t i = 0; i < N; i += 32) {
    convert_eight(to + i, from + i);
    convert_eight(to + i + 8, from + i + 8);
    convert_eight(to + i + 16, from + i + 16);
    convert_eight(to + i + 24, from + i + 24);
  }
}
#endif

template <level Level, class To, class From>
inline constexpr bool has_f16c = Level == level::avx2 &&
                                 ((std::is_same_v<To, float> && std::is_same_v<From, float16>) ||
                                  (std::is_same_v<To, float16> && std::is_same_v<From, float>));

template <level Level, std::size_t N, class To, class From>
[[gnu::always_inline]] inline void convert(To* to, From const* from) {
  if constexpr (has_f16c<Level, To, From>)
    convert_f16c<N>(to, from);
  else
    for (std::size_t i = 0; i < N; ++i) to[i] = static_cast<To>(from[i]);
}

// N elements of `From` read as `To`: each when asked for, or all beforehand where that is faster.
template <level Level, std::size_t N, class To, class From>
struct read_as {
  From const* from;
  [[gnu::always_inline]] To operator[](std::size_t i) const { return static_cast<To>(from[i]); }
};
template <level Level, std::size_t N, class To, class From>
  requires has_f16c<Level, To, From>
struct read_as<Level, N, To, From> {
  room<To, N> converted;
  [[gnu::always_inline]] explicit read_as(From const* from) { convert<Level, N>(converted.at, from); }
  [[gnu::always_inline]] To operator[](std::size_t i) const { return converted.at[i]; }
};

// What was accumulated, as it travels: in `v` itself where the types are the same.
template <level Level, class W, class A, std::size_t N>
[[gnu::always_inline]] inline W const* narrowed(room<A, N> const& v, room<W, N>& out) {
  if constexpr (std::is_same_v<W, A>) {
    return v.at;
  } else {
    convert<Level, N>(out.at, v.at);
    return out.at;
  }
}

#if RINGLET_X86
// Sixteen bytes, past the caches. `to` is aligned to them.
[[gnu::always_inline]] inline void stream_part(void* to, void const* from) {
  typedef long long part __attribute__((vector_size(16)));
  part p;
  std::memcpy(&p, from, sizeof p);
#if defined(__clang__)
  __builtin_nontemporal_store(p, static_cast<part*>(to));
#else
  __builtin_ia32_movntdq(static_cast<part*>(to), p);
#endif
}

template <level Level, std::size_t N, class T, class W>
[[gnu::always_inline]] inline void stream(T* to, W const* from) {
  room<T, N> converted;
  convert<Level, N>(converted.at, from);
  for (std::size_t i = 0; i < N * sizeof(T); i += 16)
    stream_part(reinterpret_cast<char*>(to) + i, reinterpret_cast<char const*>(converted.at) + i);
}
#endif

// The processor's own prefetcher stops at the ends of pages. Fetching what is used `ahead` bytes later bridges them.
template <std::size_t Bytes>
[[gnu::always_inline]] inline void prefetch(void const* from) {
  constexpr std::size_t ahead = 1024;
  for (std::size_t i = 0; i < Bytes; i += 64) __builtin_prefetch(static_cast<char const*>(from) + ahead + i);
}

// One block. All is read before anything is written: exact aliasing does no harm.
template <level Level, class Arithmetic>
[[gnu::always_inline]] inline void fold_block(operands<Arithmetic> const& at, Arithmetic const& how, bool last,
                                              bool streams) {
  using W = typename Arithmetic::wire;
  using T = typename Arithmetic::element;
  using A = typename Arithmetic::accumulator;
  constexpr std::size_t N = block_size<Arithmetic>;
  bool const finish = Arithmetic::finishes && last;
  room<W, N> out;
  room<A, N> v;
  W const* value = out.at;
  constexpr bool adds = always_adds<Arithmetic>;
  if (!adds && at.own == nullptr) {
    convert<Level, N>(out.at, at.got);
  } else if (Arithmetic::keeps || (!adds && at.got == nullptr && !Arithmetic::lifts && !finish)) {
    convert<Level, N>(out.at, at.own);
  } else if constexpr (!Arithmetic::keeps) {
    read_as<Level, N, A, T> const own{at.own};
    if (adds || at.got != nullptr) {
      prefetch<sizeof(T[N])>(at.own);
      prefetch<sizeof(W[N])>(at.got);
      read_as<Level, N, A, W> const got{at.got};
      for (std::size_t i = 0; i < N; ++i) v.at[i] = how.add(got[i], how.lift(own[i]));
    } else {
      for (std::size_t i = 0; i < N; ++i) v.at[i] = how.lift(own[i]);
    }
    if (finish)
      for (std::size_t i = 0; i < N; ++i) v.at[i] = how.finish(v.at[i]);
    value = narrowed<Level>(v, out);
  }
  if (at.wire != nullptr) convert<Level, N>(at.wire, value);
  if (at.result == nullptr) return;
#if RINGLET_X86
  if (streams) return stream<Level, N>(at.result, value);
#endif
  convert<Level, N>(at.result, value);
}

// All whole blocks from `begin` on. Returns where they end.
template <level Level, class Arithmetic>
[[gnu::always_inline]] inline std::size_t fold_blocks(operands<Arithmetic> const& at, std::size_t begin,
                                                      std::size_t end, Arithmetic const& how, bool last, bool streams) {
  for (; end - begin >= block_size<Arithmetic>; begin += block_size<Arithmetic>)
    fold_block<Level>(at.from(begin), how, last, streams);
  return begin;
}
#if RINGLET_X86
template <class Arithmetic>
[[gnu::target("avx2,f16c")]] std::size_t fold_blocks_avx2(operands<Arithmetic> const& at, std::size_t begin,
                                                          std::size_t end, Arithmetic const& how, bool last,
                                                          bool streams) {
  return fold_blocks<level::avx2>(at, begin, end, how, last, streams);
}
#endif

// From this many bytes on, a result that is not in place goes past the caches: it is larger than a core's own, and to
// fetch lines only to overwrite them is a third of the traffic. Never `wire`, which the neighbour reads at once.
inline constexpr std::size_t streamed_bytes = std::size_t{4} << 20;
inline constexpr bool can_stream = RINGLET_X86 && !RINGLET_SANITIZED;

// How many elements come before `result` is aligned to a cache line; `n` where none is, or where it is not to be streamed.
template <class T>
inline std::size_t elements_before_line(T const* result, std::size_t n, bool far) {
  if (!can_stream || result == nullptr || !(far || n * sizeof(T) >= streamed_bytes)) return n;
  std::size_t const bytes = (0 - reinterpret_cast<std::uintptr_t>(result)) % 64;
  return bytes % sizeof(T) == 0 && bytes / sizeof(T) < n ? bytes / sizeof(T) : n;
}

// All elements, by this thread: those before a cache line where it matters, whole blocks, the rest.
template <class Arithmetic>
void fold_here(operands<Arithmetic> const& at, std::size_t n, Arithmetic const& how, bool last, bool far) {
  if constexpr (in_blocks<Arithmetic>) {
    std::size_t const head = at.result == at.own ? n : elements_before_line(at.result, n, far);
    bool const streams = head < n;
    std::size_t done = 0;
    for (std::size_t end = streams ? head : 0;; end = n) {
      fold_each(at, done, 1, end, how, last);
      if (end == n) break;
#if RINGLET_X86
      done = chosen_level == level::avx2 ? fold_blocks_avx2(at, end, n, how, last, streams) : end;
#else
      done = fold_blocks<level::baseline>(at, end, n, how, last, streams);
#endif
    }
#if RINGLET_X86
    if (streams) __builtin_ia32_sfence();
#endif
  } else {
    fold_each(at, 0, 1, n, how, last);
  }
}

RINGLET_ANY_EXEC
template <worker Worker, class Arithmetic>
RINGLET_HD constexpr void fold(Worker w, operands<Arithmetic> const& at, std::size_t n, Arithmetic const& how,
                               bool last, bool far) {
#if !defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<Worker, this_thread>)
    if (!__builtin_is_constant_evaluated()) return fold_here(at, n, how, last, far);
#endif
  fold_each(at, w.rank(), w.size(), n, how, last);
}

// memcpy past the caches.
inline void stream_bytes(std::byte* to, std::byte const* from, std::size_t bytes) {
  std::size_t const head = (0 - reinterpret_cast<std::uintptr_t>(to)) % 64;
  if (!can_stream || bytes < head + 64) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::memcpy(to, from, head);
#if RINGLET_X86
  std::size_t i = head;
  for (; i + 64 <= bytes; i += 64) {
    prefetch<64>(from + i);
    for (std::size_t k = 0; k < 64; k += 16) stream_part(to + i + k, from + i + k);
  }
  std::memcpy(to + i, from + i, bytes - i);
  __builtin_ia32_sfence();
#endif
}

// Bytes to `wire` and `result`, either of which may be null. To both in pieces that stay in the first cache until they
// have been read again. One function for all types.
[[gnu::noinline]] inline void copy_bytes(void* wire, void* result, void const* from, std::size_t bytes, bool far) {
  std::size_t const piece = wire != nullptr && result != nullptr ? 8192 : bytes;
  for (std::size_t i = 0; i < bytes; i += piece) {
    std::size_t const n = bytes - i < piece ? bytes - i : piece;
    auto const* const part = static_cast<std::byte const*>(from) + i;
    if (wire != nullptr) std::memcpy(static_cast<std::byte*>(wire) + i, part, n);
    if (result == nullptr) continue;
    auto* const to = static_cast<std::byte*>(result) + i;
    if (far)
      stream_bytes(to, part, n);
    else
      std::memcpy(to, part, n);
  }
}

RINGLET_ANY_EXEC
template <worker Worker, class T>
RINGLET_HD constexpr void copy(Worker w, T* wire, T* result, T const* from, std::size_t n, bool far) {
#if !defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<Worker, this_thread>)
    if (!__builtin_is_constant_evaluated()) return copy_bytes(wire, result, from, n * sizeof(T), far);
#endif
  for (std::size_t i = w.rank(); i < n; i += w.size()) {
    if (wire != nullptr) wire[i] = from[i];
    if (result != nullptr) result[i] = from[i];
  }
}

}  // namespace ringlet::detail
