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
  collective what = collective::barrier;
  char element_name[23] = {};    ///< ends with a zero
  char reduction_name[32] = {};  ///< ends with a zero; empty where nothing is reduced

  /// Whether two ranks called the same thing. The names only explain, they do not decide.
  RINGLET_HD friend constexpr bool operator==(call const& a, call const& b) {
    return a.sequence == b.sequence && a.count == b.count && a.element == b.element && a.reduction == b.reduction &&
           a.what == b.what;
  }
};
/// A call in one word: equal for equal calls, and for different ones different but for one case in 2^64.
RINGLET_HD constexpr std::uint64_t digest(call const& c) {
  std::uint64_t h = 0;
  for (std::uint64_t field : {static_cast<std::uint64_t>(c.what) + 1, c.sequence, c.count, c.element, c.reduction}) {
    h = (h ^ field) * 0x9e3779b97f4a7c15u;  // 2^64 over the golden ratio (Knuth, vol. 3, 6.4)
    h ^= h >> 32;
  }
  return h;
}
static_assert(sizeof(call) == 88, "a call travels between ranks: its layout is part of the wire version");

/// The call in words: "all_reduce of 409600 float32, sum (call 7)". It may come from a rank that has gone wrong: names are
/// read within their bounds only.
inline std::string describe(call const& c) {
  auto const sequence = static_cast<unsigned long long>(c.sequence), count = static_cast<unsigned long long>(c.count);
  if (c.what == collective::barrier) return detail::words("%s (call %llu)", to_string(c.what), sequence);
  return detail::words("%s of %llu %.22s%s%.31s (call %llu)", to_string(c.what), count, c.element_name,
                       c.reduction != 0 ? ", " : "", c.reduction != 0 ? c.reduction_name : "", sequence);
}

}  // namespace ringlet
