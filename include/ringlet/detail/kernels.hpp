// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ringlet/config.hpp"
#include "ringlet/detail/registers.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/worker.hpp"

// The loops under `combine`. Sums go through vector registers (registers.hpp). All else is left to the compiler, which
// gets loops it can turn into vector code: of a fixed length, into local arrays that alias nothing, without branches.
// (With -O2, g++ 12 does no others.) On x86-64 this is compiled for AVX2, and the processor is asked once whether it
// has that; if not, elements are taken one at a time, which for most types still keeps up with memory, and spares every
// program half of this code.

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

// The value of element `i`, as `arithmetic` says.
RINGLET_ANY_EXEC
template <class Arithmetic>
RINGLET_HD constexpr typename Arithmetic::wire folded(operands<Arithmetic> const& at, std::size_t i,
                                                      Arithmetic const& how, bool last) {
  using W = typename Arithmetic::wire;
  using A = typename Arithmetic::accumulator;
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

#if RINGLET_X86
inline bool has_avx2() {
  __builtin_cpu_init();
  unsigned a = 1, b = 0, c = 0, d = 0;  // leaf 1; __builtin_cpu_supports of clang 14 does not know F16C
  __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return __builtin_cpu_supports("avx2") && (c >> 29 & 1) != 0;
}
#else
constexpr bool has_avx2() { return true; }
#endif

// Whether the vector code below is used, found out before main. It cannot fuse a product with a sum, so the bits are
// the same with and without it. Tests set this.
inline bool use_vectors = has_avx2();

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
template <std::size_t N, class To, class From>
RINGLET_AVX2 inline void convert_f16c(To* to, From const* from) {
  for (std::size_t i = 0; i < N; i += 8) put(to + i, converted(from + i));
}
#endif

template <class To, class From>
inline constexpr bool has_f16c = RINGLET_X86 && ((std::is_same_v<To, float> && std::is_same_v<From, float16>) ||
                                                 (std::is_same_v<To, float16> && std::is_same_v<From, float>));

template <std::size_t N, class To, class From>
[[gnu::always_inline]] inline void convert(To* to, From const* from) {
  if constexpr (has_f16c<To, From>)
    convert_f16c<N>(to, from);
  else
    for (std::size_t i = 0; i < N; ++i) to[i] = static_cast<To>(from[i]);
}

#if RINGLET_X86
template <std::size_t N, class T, class W>
RINGLET_AVX2 void stream_block(T* to, W const* from) {
  room<T, N> converted;
  convert<N>(converted.at, from);
  for (std::size_t i = 0; i < N * sizeof(T); i += sizeof(vector_bytes))
    stream(reinterpret_cast<char*>(to) + i, loaded<vector_bytes>(reinterpret_cast<char const*>(converted.at) + i));
}
#endif

// The processor's own prefetcher stops at the ends of pages. Fetching what is used a little later bridges them.
template <std::size_t Bytes>
[[gnu::always_inline]] inline void prefetch(void const* from) {
  constexpr std::size_t ahead = 2048;
  for (std::size_t i = 0; i < Bytes; i += 64) __builtin_prefetch(static_cast<char const*>(from) + ahead + i);
}

// One block. All is read before anything is written: exact aliasing does no harm.
template <class Arithmetic>
[[gnu::always_inline]] inline void fold_block(operands<Arithmetic> const& at, Arithmetic const& how, bool last,
                                              bool streams, bool wire_streams) {
  using W = typename Arithmetic::wire;
  using T = typename Arithmetic::element;
  using A = typename Arithmetic::accumulator;
  constexpr std::size_t N = block_size<Arithmetic>;
  bool const finish = Arithmetic::finishes && last;
  room<W, N> out;
  if (at.own == nullptr) {
    convert<N>(out.at, at.got);
  } else if (Arithmetic::keeps || (at.got == nullptr && !Arithmetic::lifts && !finish)) {
    convert<N>(out.at, at.own);
  } else if constexpr (!Arithmetic::keeps) {
    room<A, N> v, got;
    convert<N>(v.at, at.own);
    prefetch<sizeof(T[N])>(at.own);
    for (std::size_t i = 0; i < N; ++i) v.at[i] = how.lift(v.at[i]);
    if (at.got != nullptr) {
      convert<N>(got.at, at.got);
      prefetch<sizeof(W[N])>(at.got);
      for (std::size_t i = 0; i < N; ++i) v.at[i] = how.add(got.at[i], v.at[i]);
    }
    if (finish)
      for (std::size_t i = 0; i < N; ++i) v.at[i] = how.finish(v.at[i]);
    convert<N>(out.at, v.at);
  }
#if RINGLET_X86
  if (wire_streams)
    stream_block<N>(at.wire, out.at);
  else
#endif
      if (at.wire != nullptr)
    convert<N>(at.wire, out.at);
  if (at.result == nullptr) return;
#if RINGLET_X86
  if (streams) return stream_block<N>(at.result, out.at);
#endif
  convert<N>(at.result, out.at);
}

// All whole blocks from `begin` on. Returns where they end.
template <class Arithmetic>
RINGLET_AVX2 std::size_t fold_blocks(operands<Arithmetic> const& at, std::size_t begin, std::size_t end,
                                     Arithmetic const& how, bool last, bool streams, bool wire_streams) {
  constexpr std::size_t N = block_size<Arithmetic>;
  for (; end - begin >= N; begin += N) fold_block(at.from(begin), how, last, streams, wire_streams);
  return begin;
}

// Whether two values are plainly added: what gradients need, and what is worth vector registers.
template <class Arithmetic>
inline constexpr bool adds_in_registers =
    RINGLET_X86&& std::is_same_v<typename Arithmetic::wire, typename Arithmetic::element> &&
    (std::is_same_v<typename Arithmetic::operation, sum> ||
     (std::is_same_v<typename Arithmetic::operation, average> &&
      std::is_floating_point_v<typename Arithmetic::accumulator>)) &&
    has_vector_sum<typename Arithmetic::element, typename Arithmetic::accumulator>;

#if RINGLET_X86
// The sums of all whole lines from element `i` on, where `got` and `own` are given. Returns where they end.
template <class Arithmetic>
RINGLET_AVX2 std::size_t add_lines(operands<Arithmetic> const at, std::size_t i, std::size_t end,
                                   [[maybe_unused]] Arithmetic const& how, bool last, bool streams, bool wire_streams) {
  using T = typename Arithmetic::element;
  using A = typename Arithmetic::accumulator;
  constexpr std::size_t line = 64 / sizeof(T), half = line / 2;
  for (; end - i >= line; i += line) {
    prefetch<64>(at.got + i);
    prefetch<64>(at.own + i);
    vector_sum<T, A> a(at.got + i, at.own + i), b(at.got + i + half, at.own + i + half);
    if constexpr (Arithmetic::finishes)
      if (last) {
        a.divide(static_cast<A>(how.size()));
        b.divide(static_cast<A>(how.size()));
      }
    vector_bytes const first = a.bytes(), second = b.bytes();
    if (wire_streams) {
      stream(at.wire + i, first);
      stream(at.wire + i + half, second);
    } else if (at.wire != nullptr) {
      put(at.wire + i, first);
      put(at.wire + i + half, second);
    }
    if (at.result == nullptr) continue;
    if (streams) {
      stream(at.result + i, first);
      stream(at.result + i + half, second);
    } else {
      put(at.result + i, first);
      put(at.result + i + half, second);
    }
  }
  return i;
}

// memcpy past the caches.
RINGLET_AVX2 inline void stream_bytes(std::byte* to, std::byte const* from, std::size_t bytes) {
  std::size_t i = (0 - reinterpret_cast<std::uintptr_t>(to)) % 64;
  if (i > bytes) i = bytes;
  std::memcpy(to, from, i);
  for (; bytes - i >= 64; i += 64) {
    prefetch<64>(from + i);
    auto const a = loaded<vector_bytes>(from + i), b = loaded<vector_bytes>(from + i + sizeof a);
    stream(to + i, a);
    stream(to + i + sizeof a, b);
  }
  std::memcpy(to + i, from + i, bytes - i);
  __builtin_ia32_sfence();
}
#endif

// From this many bytes on, a result that is not in place goes past the caches: it is larger than a core's own, and to
// fetch lines only to overwrite them is a third of the traffic.
inline constexpr std::size_t streamed_bytes = std::size_t{4} << 20;
inline constexpr bool can_stream = RINGLET_X86 && !RINGLET_SANITIZED;

template <class Arithmetic>
[[gnu::noinline]] void combine_here(typename Arithmetic::wire* wire, typename Arithmetic::element* result,
                                    typename Arithmetic::wire const* got, typename Arithmetic::element const* own,
                                    std::size_t n, Arithmetic const& how, bool last, bool far, bool wire_far);

// All elements, by this thread: those before a cache line where it matters, by vectors what they can do, the rest.
template <class Arithmetic>
void fold_here(operands<Arithmetic> const& at, std::size_t n, Arithmetic const& how, bool last, bool far,
               bool wire_far) {
  std::size_t done = 0;
  if constexpr (in_blocks<Arithmetic>)
    if (use_vectors && n >= block_size<Arithmetic>) {
      std::size_t const size = sizeof(typename Arithmetic::element);
      std::size_t const to_line = (0 - reinterpret_cast<std::uintptr_t>(at.result)) % 64;
      bool const streams = can_stream && at.result != nullptr && at.result != at.own &&
                           (far || n * size >= streamed_bytes) && to_line % size == 0 && to_line / size < n;
      bool const wire_streams =
          streams && wire_far && std::is_same_v<typename Arithmetic::wire, typename Arithmetic::element> &&
          (reinterpret_cast<std::uintptr_t>(at.wire) - reinterpret_cast<std::uintptr_t>(at.result)) % 64 == 0;
      if (streams) {  // up to the line, by a call: what does that stands below, and once is enough
        done = to_line / size;
        combine_here(at.wire, at.result, at.got, at.own, done, how, last, false, false);
      }
      if constexpr (!adds_in_registers<Arithmetic>)
        done = fold_blocks(at, done, n, how, last, streams, wire_streams);
      else if (at.got != nullptr && at.own != nullptr)
        done = add_lines(at, done, n, how, last, streams, wire_streams);
#if RINGLET_X86
      if (streams) __builtin_ia32_sfence();
#endif
    }
  fold_each(at, done, 1, n, how, last);
}

// The loops of a kernel's workers stand in device_loops.hpp. Were they not found there, by the worker's namespace or a
// base's, or took other arguments, these here would go in their place, correct and slow.
template <class Worker>
RINGLET_HD constexpr void only_here() {
  static_assert(
      !requires(Worker const& w) { w.common(); },
      "ringlet: a kernel's worker needs the loops of detail/device_loops.hpp, found by a base in ringlet::detail");
}

RINGLET_ANY_EXEC
template <worker Worker, class Arithmetic>
RINGLET_HD constexpr void fold(Worker w, operands<Arithmetic> const& at, std::size_t n, Arithmetic const& how,
                               bool last, bool far, bool wire_far) {
  only_here<Worker>();
#if !defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<Worker, this_thread>)
    if (!__builtin_is_constant_evaluated()) return fold_here(at, n, how, last, far, wire_far);
#endif
  fold_each(at, w.rank(), w.size(), n, how, last);
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
#if RINGLET_X86
    if (far && can_stream && use_vectors) {
      stream_bytes(to, part, n);
      continue;
    }
#endif
    std::memcpy(to, part, n);
  }
}

RINGLET_ANY_EXEC
template <worker Worker, class T>
RINGLET_HD constexpr void copy(Worker w, T* wire, T* result, T const* from, std::size_t n, bool far) {
  only_here<Worker>();
#if !defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<Worker, this_thread>)
    if (!__builtin_is_constant_evaluated()) {
      // A few bytes should not pay for what is good for many; none may come from nowhere, which memcpy does not allow.
      if ((wire == nullptr) != (result == nullptr) && !far && n != 0)
        std::memcpy(wire != nullptr ? wire : result, from, n * sizeof(T));
      else
        copy_bytes(wire, result, from, n * sizeof(T), far);
      return;
    }
#endif
  for (std::size_t i = w.rank(); i < n; i += w.size()) {
    if (wire != nullptr) wire[i] = from[i];
    if (result != nullptr) result[i] = from[i];
  }
}

}  // namespace ringlet::detail
