// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ringlet/config.hpp"
#include "ringlet/error.hpp"
#include "ringlet/schedule.hpp"

namespace ringlet {

/// What a rank called: the facts in which all ranks must agree, and the names to say so in words when they do not.
/// Travels with the first slice of an operation, so it is plain data of one size on all ranks.
struct call {
  std::uint64_t sequence = 0;   ///< the ordinal number of the operation in this communicator, from 1
  std::uint64_t count = 0;      ///< elements in the whole buffer
  std::uint64_t element = 0;    ///< `element_id` of the type
  std::uint64_t reduction = 0;  ///< `reduction_id` of the operator and its policies; 0 where nothing is reduced
  collective what = collective::barrier;  ///< which was called
  char element_name[23] = {};             ///< ends with a zero
  char reduction_name[32] = {};           ///< ends with a zero; empty where nothing is reduced

  /// Whether two ranks called the same thing. The names only explain, they do not decide.
  RINGLET_HD friend constexpr bool operator==(call const& a, call const& b) {
    return a.sequence == b.sequence && a.count == b.count && a.element == b.element && a.reduction == b.reduction &&
           a.what == b.what;
  }
};
/// A call in one word: equal for equal calls, and for different ones different but for one case in 2^64. Products that
/// do not wait for each other, by the fractions of the square roots of 2, 3, 5, 7 and 11, made odd, and turned by
/// different angles, so that no two fields are exchanged for each other.
RINGLET_HD constexpr std::uint64_t digest(call const& c) {
  auto turned = [](std::uint64_t x, int by) { return x << by | x >> (64 - by); };
  return (static_cast<std::uint64_t>(c.what) + 1) * 0x6a09e667f3bcc909u + turned(c.sequence * 0xbb67ae8584caa73bu, 13) +
         turned(c.count * 0x3c6ef372fe94f82bu, 26) + turned(c.element * 0xa54ff53a5f1d36f1u, 39) +
         turned(c.reduction * 0x510e527fade682d1u, 52);
}
static_assert(sizeof(call) == 88, "a call travels between ranks: its layout is part of the wire version");

/// The call in words: "all_reduce of 409600 float32, sum (call 7)". It may come from a rank that has gone wrong: names
/// are read within their bounds only.
inline std::string describe(call const& c) {
  auto const sequence = static_cast<unsigned long long>(c.sequence), count = static_cast<unsigned long long>(c.count);
  if (c.what == collective::barrier) return detail::words("%s (call %llu)", to_string(c.what), sequence);
  return detail::words("%s of %llu %.22s%s%.31s (call %llu)", to_string(c.what), count, c.element_name,
                       c.reduction != 0 ? ", " : "", c.reduction != 0 ? c.reduction_name : "", sequence);
}

}  // namespace ringlet
