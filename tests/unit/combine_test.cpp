// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/combine.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

using namespace ringlet;

namespace {

// One member of a team of three, which takes every third element, one by one.
struct one_of_three : this_thread {
  unsigned member = 0;
  constexpr unsigned rank() const { return member; }
  constexpr unsigned size() const { return 3; }
};

struct best {
  float value;
  std::int32_t index, tag;
};
struct best_of_two {
  using commutative_and_associative = std::true_type;
  best operator()(best a, best b) const { return a.value > b.value ? a : b; }
};
struct large {
  std::int64_t at[8];
};
struct sum_of_large {
  using commutative_and_associative = std::true_type;
  large operator()(large a, large const& b) const {
    for (int i = 0; i < 8; ++i) a.at[i] ^= b.at[i] + 1;
    return a;
  }
};

template <class T>
T any(std::mt19937& random) {
  std::uint32_t const r = static_cast<std::uint32_t>(random());
  if constexpr (std::is_same_v<T, bool>)
    return r % 2 != 0;
  else if constexpr (std::is_same_v<T, best>)
    return {static_cast<float>(r % 9), static_cast<std::int32_t>(r), 1};
  else if constexpr (std::is_same_v<T, large>)
    return {{static_cast<std::int64_t>(r), 1, 2, 3, 4, 5, 6, 7}};
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(r);
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    return {static_cast<float>(r % 100), static_cast<float>(r % 7)};
  else {
    if (r % 17 == 0) return T(std::numeric_limits<float>::quiet_NaN());
    if (r % 17 == 1) return T(std::numeric_limits<float>::infinity());
    if (r % 17 == 2) return T(-0.0F);
    return T(std::ldexp(static_cast<float>(static_cast<std::int32_t>(random())), static_cast<int>(r % 60) - 64));
  }
}

// Elements in the middle of memory that must stay as it is, `shift` elements away from a cache line.
template <class T>
class guarded {
 public:
  guarded(std::size_t n, std::size_t shift, std::mt19937& random)
      : n_(n), memory_(n * sizeof(T) + 2 * border + 64, 0xa5) {
    auto const line = (0 - reinterpret_cast<std::uintptr_t>(memory_.data())) % 64;
    begin_ = line + border + shift % 16 * alignof(T);
    for (std::size_t i = 0; i < n; ++i) {
      T const value = any<T>(random);
      std::memcpy(static_cast<void*>(data() + i), &value, sizeof value);
    }
  }
  T* data() { return reinterpret_cast<T*>(memory_.data() + begin_); }
  bool guards_hold() const {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if ((i < begin_ || i >= begin_ + n_ * sizeof(T)) && memory_[i] != 0xa5) return false;
    return true;
  }
  // Bit for bit, but for a NaN's payload.
  bool equals(guarded const& other) {
    auto copy = other;
    for (std::size_t i = 0; i < n_; ++i) {
      if (std::memcmp(data() + i, copy.data_at(other) + i, sizeof(T)) == 0) continue;
      if constexpr (std::is_convertible_v<T, float>)
        if (std::isnan(static_cast<double>(data()[i])) && std::isnan(static_cast<double>(copy.data_at(other)[i])))
          continue;
      return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t border = 256;
  T* data_at(guarded const& layout) { return reinterpret_cast<T*>(memory_.data() + layout.begin_); }

  std::size_t n_, begin_;
  std::vector<unsigned char> memory_;
};

struct shape {
  bool wire, result, got, own, last;
  enum { apart, result_is_own, wire_is_got } alias;
};

std::vector<shape> all_shapes() {
  std::vector<shape> all;
  for (unsigned bits = 0; bits < 32; ++bits)
    for (auto alias : {shape::apart, shape::result_is_own, shape::wire_is_got}) {
      shape const s = {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0, (bits & 16) != 0, alias};
      bool const possible = (s.got || s.own) && (alias != shape::result_is_own || (s.result && s.own)) &&
                            (alias != shape::wire_is_got || (s.wire && s.got));
      if (possible) all.push_back(s);
    }
  return all;
}

// What `this_thread` does, with vector code or without, against the team of three.
template <class T, class Op>
bool agrees(Op op, shape s, std::size_t n, std::size_t shift, bool far = false, bool wire_far = false) {
  using how = arithmetic<T, Op>;
  using W = typename how::wire;
  if (how::keeps && s.got && s.own) return true;
  std::mt19937 random(static_cast<unsigned>(n * 131 + shift));
  guarded<W> wire(n, shift, random), got(n, shift + 3, random);
  guarded<T> result(n, wire_far ? shift + shift % 2 * 4 : shift + 5, random), own(n, shift + 7, random);
  auto wire2 = wire, got2 = got;
  auto result2 = result, own2 = own;
  auto const run = [&](auto worker, guarded<W>& w, guarded<T>& r, guarded<W>& g, guarded<T>& o) {
    combine(worker, s.wire ? s.alias == shape::wire_is_got ? g.data() : w.data() : nullptr,
            s.result ? s.alias == shape::result_is_own ? o.data() : r.data() : nullptr, s.got ? g.data() : nullptr,
            s.own ? o.data() : nullptr, n, how(op, 3), s.last, far, wire_far);
  };
  run(this_thread{}, wire, result, got, own);
  for (unsigned member = 0; member < 3; ++member) run(one_of_three{{}, member}, wire2, result2, got2, own2);
  return wire.equals(wire2) && result.equals(result2) && got.equals(got2) && own.equals(own2) && wire.guards_hold() &&
         result.guards_hold() && got.guards_hold() && own.guards_hold();
}

template <class T, class Op>
void check_all_shapes(Op op) {
  for (shape const s : all_shapes())
    for (std::size_t n = 0; n <= 300; n += n < 70 || n > 250 ? 1 : 9) {
      bool const fine = agrees<T>(op, s, n, n % 16);
      if (!fine)
        FAIL_CHECK(element_name<T> << " " << operation_name<Op> << ": wire " << s.wire << ", result " << s.result
                                   << ", got " << s.got << ", own " << s.own << ", last " << s.last << ", alias "
                                   << s.alias << ", n " << n);
    }
}

// Without and, where this processor has it, with vector code.
template <class F>
void with_and_without_vectors(F check) {
  for (bool const vectors : {false, detail::has_avx2()}) {
    detail::use_vectors = vectors;
    CAPTURE(vectors);
    check();
  }
}

template <class T, class Op>
struct of {
  using element = T;
  using operation = Op;
};

// What is fast is found for the types it is for: without it the bits are the same.
#if defined(__x86_64__)
template <class T, class Op = sum>
constexpr bool in_registers = detail::adds_in_registers<arithmetic<T, Op>>;
static_assert(in_registers<float> && in_registers<double> && in_registers<float16> && in_registers<bfloat16>);
static_assert(in_registers<std::int8_t> && in_registers<std::uint16_t> && in_registers<int> && in_registers<long>);
static_assert(in_registers<float, average> && in_registers<double, average> && in_registers<bfloat16, average>);
static_assert(!in_registers<int, average> && !in_registers<float, product> && !in_registers<bool>);
static_assert(detail::has_f16c<float, float16> && detail::has_f16c<float16, float>);
static_assert(detail::in_blocks<arithmetic<std::complex<double>, product>>);
static_assert(!detail::in_blocks<arithmetic<large, sum_of_large>>);
static_assert(detail::can_stream || RINGLET_SANITIZED);

bool const vectors_by_default = detail::use_vectors;
#endif

}  // namespace

#if defined(__x86_64__)
TEST_CASE("vectors are used where the kernel says that the processor has them") {
  std::ifstream about("/proc/cpuinfo");
  std::string flags;
  while (std::getline(about, flags) && flags.rfind("flags", 0) != 0) {
  }
  CHECK(vectors_by_default ==
        ((flags + ' ').find(" avx2 ") != flags.npos && (flags + ' ').find(" f16c ") != flags.npos));
}
#endif

TEST_CASE_TEMPLATE(
    "C10 C11 every length, alignment and shape, with vectors and without: as element by element, and not a byte beyond",
    Case, of<float, sum>, of<double, minimum>, of<std::int8_t, sum>, of<std::uint16_t, product>,
    of<std::int32_t, bit_xor>, of<std::int64_t, maximum>, of<bool, logical_or>, of<bfloat16, sum>, of<float16, average>,
    of<std::complex<float>, product>, of<double, average>, of<bfloat16, average>, of<float16, sum>,
    of<std::uint64_t, sum>, of<std::int16_t, average>) {
  with_and_without_vectors([] { check_all_shapes<typename Case::element>(typename Case::operation{}); });
}

TEST_CASE("C10 C11 the same with policies, and with types and operators of users") {
  with_and_without_vectors([] {
    check_all_shapes<float>(travel_as<float16>(scaled_sum{0.3F}));
    check_all_shapes<float>(travel_as<bfloat16>(average{}));
    check_all_shapes<float8_e4m3>(travel_as<float16>(accumulate_in<float>(sum{})));
    check_all_shapes<double>(accumulate_in<float>(sum{}));
    check_all_shapes<float>(travel_as<float16>(keep{}));
    check_all_shapes<std::int32_t>(keep{});
    check_all_shapes<best>(best_of_two{});
    check_all_shapes<large>(sum_of_large{});
  });
}

TEST_CASE("C26 what is only kept passes bit for bit, NaN payloads and signalling NaNs too") {
  std::vector<float8_e5m2> all, wire(256), result(256);
  for (unsigned bits = 0; bits < 256; ++bits) all.push_back(float8_e5m2::from_bits(static_cast<std::uint8_t>(bits)));
  combine(this_thread{}, wire.data(), result.data(), static_cast<float8_e5m2 const*>(nullptr), all.data(), 256,
          arithmetic<float8_e5m2, keep>(keep{}, 4), false);
  CHECK(std::memcmp(wire.data(), all.data(), 256) == 0);
  CHECK(std::memcmp(result.data(), all.data(), 256) == 0);
}

TEST_CASE("float16 converts to the same bits in bulk as one by one, for all its values") {
  with_and_without_vectors([] {
    std::vector<float16> all, wire(65536);
    std::vector<float> result(65536);
    for (unsigned bits = 0; bits < 65536; ++bits) all.push_back(float16::from_bits(static_cast<std::uint16_t>(bits)));
    using how = arithmetic<float, with_policies<keep, void, float16>>;
    combine(this_thread{}, static_cast<float16*>(nullptr), result.data(), all.data(),
            static_cast<float const*>(nullptr), 65536, how({}, 2), true);
    combine(this_thread{}, wire.data(), static_cast<float*>(nullptr), static_cast<float16 const*>(nullptr),
            result.data(), 65536, how({}, 2), false);
    for (unsigned bits = 0; bits < 65536; ++bits) {
      float const one = all[bits];
      if (std::memcmp(&result[bits], &one, sizeof one) != 0) FAIL_CHECK("from " << bits);
      if (wire[bits].bits() != float16(one).bits()) FAIL_CHECK("back to " << bits);
    }
  });
}

TEST_CASE_TEMPLATE(
    "sums of 16-bit floats are the same bits in bulk as one by one: each value with each sort of another", T, float16,
    bfloat16) {
  auto const one = T(1.0F).bits(), smallest = T::from_bits(1).bits();
  auto const sign = static_cast<std::uint16_t>(0x8000), all_ones = static_cast<std::uint16_t>(0x7fff);
  auto const infinity = T(std::numeric_limits<float>::infinity()).bits();
  auto const signalling = static_cast<std::uint16_t>(infinity | 1);
  auto const any_number = static_cast<std::uint16_t>(one | 0x35);
  std::vector<T> own, got(65536), wire(65536), result(65536);
  for (unsigned bits = 0; bits < 65536; ++bits) own.push_back(T::from_bits(static_cast<std::uint16_t>(bits)));
  for (std::uint16_t const other :
       {std::uint16_t{0}, sign, one, smallest, infinity, all_ones, signalling, any_number}) {
    std::fill(got.begin(), got.end(), T::from_bits(other));
    combine(this_thread{}, wire.data(), result.data(), got.data(), own.data(), 65536, arithmetic<T, sum>({}, 2), true);
    for (unsigned bits = 0; bits < 65536; ++bits) {
      T const expected(static_cast<float>(got[bits]) + static_cast<float>(own[bits]));
      bool const same = wire[bits].bits() == result[bits].bits() &&
                        (std::isnan(static_cast<float>(expected)) ? std::isnan(static_cast<float>(wire[bits]))
                                                                  : wire[bits].bits() == expected.bits());
      if (!same) FAIL_CHECK(other << " + " << bits << " is " << wire[bits].bits() << ", not " << expected.bits());
    }
  }
}

TEST_CASE("results too large for the caches are written past them, exactly and no further") {
  std::size_t const n = detail::streamed_bytes / sizeof(float) + 77;
  for (std::size_t shift : {0, 1, 7})
    for (auto alias : {shape::apart, shape::result_is_own}) {
      CHECK(agrees<float>(sum{}, shape{false, true, true, true, false, alias}, n, shift));
      CHECK(agrees<float>(travel_as<bfloat16>(average{}), shape{true, true, true, true, true, alias}, n, shift));
    }
  CHECK(agrees<bfloat16>(sum{}, shape{true, true, true, true, false, shape::apart}, 2 * n, 3));
}

TEST_CASE("so are parts, however short, of a buffer too large for the caches") {
  with_and_without_vectors([] {
    for (std::size_t n = 0; n < 200; ++n)
      for (std::size_t shift = 0; shift < 16; ++shift) {
        CHECK(agrees<float>(sum{}, shape{true, true, true, true, false, shape::apart}, n, shift, true));
        CHECK(agrees<std::int8_t>(keep{}, shape{false, true, true, false, false, shape::apart}, n, shift, true));
        CHECK(agrees<double>(keep{}, shape{true, true, false, true, false, shape::apart}, n, shift, true));
        if (shift >= 3) continue;
        for (auto alias : {shape::apart, shape::wire_is_got}) {
          shape const both{true, true, true, true, true, alias};
          CHECK(agrees<float>(average{}, both, n, shift, true, true));
          CHECK(agrees<std::int16_t>(maximum{}, both, n, shift, true, true));
          CHECK(agrees<float>(travel_as<bfloat16>(sum{}), both, n, shift, true, true));
        }
      }
  });
}

TEST_CASE("a copy to two places, longer than a piece") {
  CHECK(agrees<std::int32_t>(keep{}, shape{true, true, true, false, false, shape::apart}, 100'003, 1));
  CHECK(agrees<large>(keep{}, shape{true, true, false, true, false, shape::apart}, 1'001, 1));
}

// A constant cannot be written, and the compiler would say so: what landed at home stays untouched.
constexpr int home[] = {1, 2, 3};
constexpr bool landed_at_home() {
  combine(this_thread{}, static_cast<int*>(nullptr), const_cast<int*>(home), home, static_cast<int const*>(nullptr), 3,
          arithmetic<int, sum>(sum{}, 2), true);
  combine(this_thread{}, const_cast<int*>(home), static_cast<int*>(nullptr), home, static_cast<int const*>(nullptr), 3,
          arithmetic<int, sum>(sum{}, 2), true);
  combine(this_thread{}, static_cast<int*>(nullptr), const_cast<int*>(home), static_cast<int const*>(nullptr), home, 3,
          arithmetic<int, average>(average{}, 2), false);
  return true;
}
static_assert(landed_at_home());

// Elements may be anything, such as the set of those who contributed, and all of it works in constant expressions.
struct contributors {
  unsigned ranks;
};
struct disjoint_union {
  using commutative_and_associative = std::true_type;
  constexpr contributors operator()(contributors a, contributors b) const {
    if ((a.ranks & b.ranks) != 0) throw "counted twice";
    return {a.ranks | b.ranks};
  }
};
constexpr bool unites() {
  contributors const got[] = {{1}, {2}}, own[] = {{4}, {4}};
  contributors wire[2] = {}, result[2] = {};
  combine(this_thread{}, wire, result, got, own, 2, arithmetic<contributors, disjoint_union>({}, 3), true);
  return wire[0].ranks == 5 && wire[1].ranks == 6 && result[0].ranks == 5 && result[1].ranks == 6;
}
static_assert(unites());
