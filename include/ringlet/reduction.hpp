// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ringlet/config.hpp"
#include "ringlet/element.hpp"

namespace ringlet {

// Operators. Function objects, so that a kernel can name them. Each works on the accumulator, which is the element
// unless `computes_in` or `accumulate_in` says otherwise, and may have two more members that the library calls:
//   A lift(A x)            what a rank's own element is before it takes part (scaled_sum)
//   A finish(A v, int n)   what the last of n ranks does to the reduced value (average)

namespace detail {

template <class T>
inline constexpr bool ordered = !complex_like<T>;

// Unsigned, and at least as wide as int, since narrower types would be promoted to signed ones.
template <class T>
using wrapping = std::make_unsigned_t<std::conditional_t<(sizeof(T) < sizeof(int)), int, T>>;
template <class T>
inline constexpr bool wraps = std::is_integral_v<T> && !std::is_same_v<T, bool>;

template <class T>
RINGLET_HD constexpr T add(T const& a, T const& b) {
  if constexpr (wraps<T>) return static_cast<T>(static_cast<wrapping<T>>(a) + static_cast<wrapping<T>>(b));
  return static_cast<T>(a + b);
}
template <class T>
RINGLET_HD constexpr T multiply(T const& a, T const& b) {
  if constexpr (wraps<T>) return static_cast<T>(static_cast<wrapping<T>>(a) * static_cast<wrapping<T>>(b));
  return static_cast<T>(a * b);
}

// Of two equal floats, the one with the sign bit if Or, without it otherwise: they differ only where they are zeros.
template <bool Or, class T>
RINGLET_HD constexpr T of_equals(T a, T b) {
  if constexpr (sizeof(T) <= sizeof(std::uint64_t)) {
    using bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    bits const x = __builtin_bit_cast(bits, a), y = __builtin_bit_cast(bits, b);
    return __builtin_bit_cast(T, Or ? x | y : x & y);
  }
  return a;
}

}  // namespace detail

/// a + b. Integers wrap around, the signed ones too; for `bool` it is "or".
struct sum {
  static constexpr char const* name = "sum";
  using commutative_and_associative = std::true_type;
  template <class T>
  RINGLET_HD constexpr T operator()(T const& a, T const& b) const {
    return detail::add(a, b);
  }
};

/// a * b. Integers wrap around, the signed ones too; for `bool` it is "and". Complex numbers are multiplied as such.
struct product {
  static constexpr char const* name = "product";
  using commutative_and_associative = std::true_type;
  template <class T>
  RINGLET_HD constexpr T operator()(T const& a, T const& b) const {
    return detail::multiply(a, b);
  }
};

/// The smaller one, by `<`. Of floating-point numbers: a NaN, whichever rank holds it, makes the result NaN (the quiet
/// one without payload), and -0 is smaller than +0; so the order of ranks never shows, not even in the bits.
struct minimum {
  static constexpr char const* name = "minimum";
  using commutative_and_associative = std::true_type;
  template <class T>
  RINGLET_HD constexpr T operator()(T const& a, T const& b) const {
    static_assert(detail::ordered<T>, "ringlet: complex numbers have no smallest");
    if constexpr (std::is_floating_point_v<T>) {
      T const equal = detail::of_equals<true>(a, b);
      return a < b ? a : b < a ? b : a == b ? equal : static_cast<T>(__builtin_nan(""));
    } else {
      return b < a ? b : a;
    }
  }
};

/// The larger one, by `<`. NaN as for `minimum`; +0 is larger than -0.
struct maximum {
  static constexpr char const* name = "maximum";
  using commutative_and_associative = std::true_type;
  template <class T>
  RINGLET_HD constexpr T operator()(T const& a, T const& b) const {
    static_assert(detail::ordered<T>, "ringlet: complex numbers have no largest");
    if constexpr (std::is_floating_point_v<T>) {
      T const equal = detail::of_equals<false>(a, b);
      return b < a ? a : a < b ? b : a == b ? equal : static_cast<T>(__builtin_nan(""));
    } else {
      return a < b ? b : a;
    }
  }
};

/// The sum of all, divided by the number of ranks once, at the end, in the accumulator. Integers: the sum wraps around,
/// the quotient is cut towards zero.
struct average {
  static constexpr char const* name = "average";
  using commutative_and_associative = std::true_type;
  template <class T>
  RINGLET_HD constexpr T operator()(T const& a, T const& b) const {
    static_assert(!std::is_same_v<T, bool>, "ringlet: bool has no average; accumulate_in<float>(average{}) gives one");
    return detail::add(a, b);
  }
  template <class T>
  RINGLET_HD constexpr T finish(T const& v, int ranks) const {
    if constexpr (detail::complex_like<T>) return v / static_cast<typename T::value_type>(ranks);
    // In at least 64 bits, where the number of ranks is positive whatever T; unsigned stays unsigned.
    else if constexpr (std::is_unsigned_v<T>)
      return static_cast<T>(v / static_cast<unsigned long long>(ranks));
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(v / static_cast<long long>(ranks));
    else if constexpr (std::is_floating_point_v<T>)
      return v / static_cast<T>(ranks);
    else
      return static_cast<T>(v / ranks);
  }
};

/// Each rank's elements times the factor that this rank gives, summed: a mean weighted by rank. Ranks may give
/// different factors. The product is rounded to the accumulator before it is added.
/// @tparam F the factor's type; it is converted to the accumulator before use
template <class F>
struct scaled_sum {
  static constexpr char const* name = "scaled_sum";
  using commutative_and_associative = std::true_type;
  F factor;  ///< of the rank that calls
  template <class T>
  RINGLET_HD constexpr T operator()(T const& a, T const& b) const {
    return detail::add(a, b);
  }
  template <class T>
  RINGLET_HD constexpr T lift(T const& x) const {
    return detail::multiply(static_cast<T>(factor), x);
  }
};
template <class F>
scaled_sum(F) -> scaled_sum<F>;

/// a & b, of integers and `bool`.
struct bit_and {
  static constexpr char const* name = "bit_and";
  using commutative_and_associative = std::true_type;
  template <class T>
  RINGLET_HD constexpr T operator()(T const& a, T const& b) const {
    static_assert(std::is_integral_v<T>, "ringlet: bit_and is for integers and bool");
    return static_cast<T>(a & b);
  }
};

/// a | b, of integers and `bool`.
struct bit_or {
  static constexpr char const* name = "bit_or";
  using commutative_and_associative = std::true_type;
  template <class T>
  RINGLET_HD constexpr T operator()(T const& a, T const& b) const {
    static_assert(std::is_integral_v<T>, "ringlet: bit_or is for integers and bool");
    return static_cast<T>(a | b);
  }
};

/// a ^ b, of integers and `bool`.
struct bit_xor {
  static constexpr char const* name = "bit_xor";
  using commutative_and_associative = std::true_type;
  template <class T>
  RINGLET_HD constexpr T operator()(T const& a, T const& b) const {
    static_assert(std::is_integral_v<T>, "ringlet: bit_xor is for integers and bool");
    return static_cast<T>(a ^ b);
  }
};

/// 1 if both are not 0, else 0; of integers and `bool`.
struct logical_and {
  static constexpr char const* name = "logical_and";
  using commutative_and_associative = std::true_type;
  template <class T>
  RINGLET_HD constexpr T operator()(T const& a, T const& b) const {
    static_assert(std::is_integral_v<T>, "ringlet: logical_and is for integers and bool");
    return static_cast<T>((a != 0) & (b != 0));
  }
};

/// 1 if one of them is not 0, else 0; of integers and `bool`.
struct logical_or {
  static constexpr char const* name = "logical_or";
  using commutative_and_associative = std::true_type;
  template <class T>
  RINGLET_HD constexpr T operator()(T const& a, T const& b) const {
    static_assert(std::is_integral_v<T>, "ringlet: logical_or is for integers and bool");
    return static_cast<T>((a != 0) | (b != 0));
  }
};

/// 1 if exactly one of them is not 0, else 0; of integers and `bool`. Over all ranks: whether an odd number is not 0.
struct logical_xor {
  static constexpr char const* name = "logical_xor";
  using commutative_and_associative = std::true_type;
  template <class T>
  RINGLET_HD constexpr T operator()(T const& a, T const& b) const {
    static_assert(std::is_integral_v<T>, "ringlet: logical_xor is for integers and bool");
    return static_cast<T>((a != 0) != (b != 0));
  }
};

/// No reduction: values pass as they are (all_gather).
struct keep {
  static constexpr char const* name = "keep";
  using commutative_and_associative = std::true_type;
};

/// Whether the author of `Op` says that it may be applied in any order and grouping, as a ring does: each chunk is
/// reduced starting at another rank. True for the operators above and for a class with a member `using
/// commutative_and_associative = std::true_type;`; to be specialised for others.
/// @tparam Op the operator
template <class Op>
inline constexpr bool is_commutative_and_associative = false;
template <class Op>
  requires(Op::commutative_and_associative::value)
inline constexpr bool is_commutative_and_associative<Op> = true;

/// An operator that `commutative` has made. Names are for errors; this one has none of its own.
/// @tparam F the function object
template <class F>
struct commutative_operator {
  using commutative_and_associative = std::true_type;
  F f;
  RINGLET_ANY_EXEC
  template <class T>
  RINGLET_HD constexpr T operator()(T const& a, T const& b) const {
    return f(a, b);
  }
};

/// Declares that `f(a, b)` is commutative and associative, as in `commutative([](item a, item b) { ... })`.
/// @param f trivially copyable; called concurrently by nobody else, with accumulators; may not throw: that ends the
///   program
template <class F>
RINGLET_HD constexpr commutative_operator<F> commutative(F f) {
  return {f};
}

/// An operator with its policies, as `accumulate_in` and `travel_as` make it.
/// @tparam Op the operator
/// @tparam Accumulator the type to calculate in; `void`: the element's own choice
/// @tparam Wire the type in which values travel; `void`: the element
template <class Op, class Accumulator, class Wire>
struct with_policies {
  Op op;
};

namespace detail {
template <class Op>
struct policies {
  using operation = Op;
  using accumulator = void;
  using wire = void;
  RINGLET_HD static constexpr Op const& bare(Op const& op) { return op; }
};
template <class Op, class A, class W>
struct policies<with_policies<Op, A, W>> {
  using operation = Op;
  using accumulator = A;
  using wire = W;
  RINGLET_HD static constexpr Op const& bare(with_policies<Op, A, W> const& op) { return op.op; }
};
}  // namespace detail

/// `op`, calculated in `A`: `accumulate_in<float>(sum{})`. Each hop still rounds to what travels.
/// @tparam A the accumulator
template <element A, class Op>
RINGLET_HD constexpr auto accumulate_in(Op op)
    -> with_policies<typename detail::policies<Op>::operation, A, typename detail::policies<Op>::wire> {
  return {detail::policies<Op>::bare(op)};
}

/// `op`, with values that travel as `W`: `travel_as<bfloat16>(sum{})` halves the bytes of floats. All ranks still get
/// the same bits: each keeps what has travelled, the one who calculated it included.
/// @tparam W the type on the wire
template <element W, class Op>
RINGLET_HD constexpr auto travel_as(Op op)
    -> with_policies<typename detail::policies<Op>::operation, typename detail::policies<Op>::accumulator, W> {
  return {detail::policies<Op>::bare(op)};
}

/// The operator's `name` member for errors and tables, "user" where it has none; without its policies.
/// @tparam Op the operator, with or without policies
template <class Op>
inline constexpr char const* operation_name = "user";
template <class Op>
  requires requires { Op::name; }
inline constexpr char const* operation_name<Op> = Op::name;
template <class Op, class A, class W>
inline constexpr char const* operation_name<with_policies<Op, A, W>> = operation_name<Op>;

namespace detail {
template <class T>
inline constexpr std::uint64_t policy_id = element_id<T>;
template <>
inline constexpr std::uint64_t policy_id<void> = 0;
}  // namespace detail

/// A number by which ranks find that they reduce differently: a hash of the operator's name and its policies. The same
/// whatever the compiler. Users' operators without a `name` count as the same.
/// @tparam Op the operator, with or without policies
template <class Op>
inline constexpr std::uint64_t reduction_id = detail::fnv1a(operation_name<Op>);
template <class Op, class A, class W>
inline constexpr std::uint64_t reduction_id<with_policies<Op, A, W>> =
    detail::fnv1a(detail::policy_id<W>, detail::fnv1a(detail::policy_id<A>, reduction_id<Op>));

/// What one hop of a collective does to values. With contributions x1 ... xn in ring order, the accumulator A and the
/// type on the wire W, the chain is
///
///     v = W(x1), or W(lift(A(x1))) where the operator lifts
///     v = W(op(A(v), lift(A(xk)))) for each further k, and for the last of them W(finish(op(...), n))
///
/// and every rank keeps T(v), the last one too: the same bits on all ranks, even where W is narrower than T.
/// @tparam T the element
/// @tparam Op the operator, with or without policies
template <class T, class Op>
class arithmetic {
  using policies = detail::policies<Op>;
  template <class Policy, class Otherwise>
  using given = std::conditional_t<std::is_void_v<Policy>, Otherwise, Policy>;
  using calculated_in = given<typename policies::accumulator, typename computes_in<T>::type>;

 public:
  /// The operator without its policies.
  using operation = typename policies::operation;
  /// The element in the caller's memory.
  using element = T;
  /// The element on the way between ranks.
  using wire = given<typename policies::wire, T>;
  /// True if nothing is reduced (`keep`).
  static constexpr bool keeps = std::is_same_v<operation, keep>;
  /// The type that is calculated in.
  using accumulator = std::conditional_t<keeps, T, given<calculated_in, T>>;
  /// True if a rank's own element changes before it takes part.
  static constexpr bool lifts = requires(operation const& op, accumulator const& a) { op.lift(a); };
  /// True if the last rank changes the reduced value.
  static constexpr bool finishes = requires(operation const& op, accumulator const& a) { op.finish(a, 1); };

  // One that changes the operator, or what it is given, would otherwise be left out without a word.
  static_assert((lifts || !requires(operation & op, accumulator& a) { op.lift(a); }) &&
                    (finishes || !requires(operation & op, accumulator& a) { op.finish(a, 1); }),
                "ringlet: lift(x) and finish(v, ranks) of an operator take an accumulator as it is, and are const");
  static_assert(ringlet::element<T>,
                "ringlet: an element is a non-empty, trivially copyable object, and no pointer: its bytes travel");
  static_assert(alignof(T) <= interference && alignof(wire) <= interference,
                "ringlet: an element is aligned to 128 bytes at most, as the memory between ranks is");
  static_assert(keeps || !std::is_void_v<calculated_in>,
                "ringlet: 8-bit floats reduce only in a wider type: say accumulate_in<float>(op)");
  static_assert(
      is_commutative_and_associative<operation>,
      "ringlet: a ring reduces in rotated order, so an operator must be commutative and associative: declare it "
      "with `using commutative_and_associative = std::true_type;` or ringlet::commutative(f)");
  static_assert(std::is_trivially_copyable_v<operation>,
                "ringlet: an operator is copied to where it runs: it must be trivially copyable");

  /// @param op the operator
  /// @param size the number of ranks, at least 1
  RINGLET_HD constexpr arithmetic(Op const& op, int size) : op_(policies::bare(op)), size_(size) {}

  /// The number of ranks.
  RINGLET_HD constexpr int size() const { return size_; }
  /// What this rank's own element is before it takes part.
  RINGLET_ANY_EXEC
  RINGLET_HD constexpr accumulator lift(accumulator const& x) const {
    if constexpr (lifts)
      return op_.lift(x);
    else
      return x;
  }
  /// One application of the operator: what has arrived, and this rank's lifted element.
  RINGLET_ANY_EXEC
  RINGLET_HD constexpr accumulator add(accumulator const& v, accumulator const& x) const {
    static_assert(std::is_invocable_r_v<accumulator, operation const&, accumulator const&, accumulator const&>,
                  "ringlet: an operator takes two accumulators and gives one, and does not change itself");
    return op_(v, x);
  }
  /// What the last rank does to the reduced value.
  RINGLET_ANY_EXEC
  RINGLET_HD constexpr accumulator finish(accumulator const& v) const {
    if constexpr (finishes)
      return op_.finish(v, size_);
    else
      return v;
  }

 private:
  operation op_;
  int size_;
};

}  // namespace ringlet
