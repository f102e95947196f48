// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/call.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

using ringlet::call;
using ringlet::collective;
using ringlet::describe;
using ringlet::digest;

namespace {

call example() {
  call c{.sequence = 7, .count = 409600, .element = 1, .reduction = 2, .what = collective::all_reduce};
  std::strcpy(c.element_name, "float32");
  std::strcpy(c.reduction_name, "sum");
  return c;
}

// The call, and all that differ from it in one bit of a number, or in the collective.
std::vector<call> variations() {
  std::vector<call> all{example()};
  for (std::uint64_t call::*field : {&call::sequence, &call::count, &call::element, &call::reduction})
    for (int bit = 0; bit < 64; ++bit) {
      all.push_back(example());
      all.back().*field ^= std::uint64_t{1} << bit;
    }
  for (auto what : {collective::reduce_scatter, collective::all_gather, collective::barrier}) {
    all.push_back(example());
    all.back().what = what;
  }
  return all;
}

}  // namespace

static_assert(std::is_trivially_copyable_v<call> && std::is_standard_layout_v<call>);

TEST_CASE("every collective in words") {
  call c = example();
  CHECK(describe(c) == "all_reduce of 409600 float32, sum (call 7)");
  c.what = collective::reduce_scatter;
  CHECK(describe(c) == "reduce_scatter of 409600 float32, sum (call 7)");
  c.what = collective::all_gather;
  c.reduction = 0;  // whatever the name says
  CHECK(describe(c) == "all_gather of 409600 float32 (call 7)");
  c.what = collective::barrier;
  CHECK(describe(c) == "barrier (call 7)");
}

TEST_CASE("the largest numbers in words") {
  call c = example();
  c.sequence = c.count = UINT64_MAX;
  CHECK(describe(c) == "all_reduce of 18446744073709551615 float32, sum (call 18446744073709551615)");
}

TEST_CASE("a collective that there is not, from a rank that has gone wrong") {
  for (int what : {4, 5, 255}) {
    call c = example();
    c.what = static_cast<collective>(what);
    CHECK(describe(c) == "an unknown collective of 409600 float32, sum (call 7)");
  }
}

TEST_CASE("names that do not end with a zero are read within their bounds") {
  struct {
    call c = example();
    char beyond[64];
  } memory;
  std::fill(std::begin(memory.c.element_name), std::end(memory.c.element_name), 'e');
  std::fill(std::begin(memory.c.reduction_name), std::end(memory.c.reduction_name), 'r');
  std::fill(std::begin(memory.beyond), std::end(memory.beyond), 'b');
  CHECK(describe(memory.c) ==
        "all_reduce of 409600 " + std::string(22, 'e') + ", " + std::string(31, 'r') + " (call 7)");
}

TEST_CASE("calls that differ in any field are different, and so are their digests") {
  auto const all = variations();
  std::set<std::uint64_t> digests;
  for (call const& c : all) {
    CHECK((c == example()) == (&c == &all.front()));
    digests.insert(digest(c));
  }
  CHECK(digests.size() == all.size());
}

TEST_CASE("two fields exchanged give another digest") {
  call const a{.sequence = 1, .count = 2, .element = 3, .reduction = 4};
  call const b{.sequence = 2, .count = 1, .element = 3, .reduction = 4};
  call const c{.sequence = 1, .count = 2, .element = 4, .reduction = 3};
  CHECK(std::set{digest(a), digest(b), digest(c)}.size() == 3);
}

TEST_CASE("names only explain: calls with other names are equal, and so are their digests") {
  call other = example();
  std::strcpy(other.element_name, "float");
  std::strcpy(other.reduction_name, "plus");
  CHECK(other == example());
  CHECK(digest(other) == digest(example()));
}

TEST_CASE("the digest travels: it is part of the wire version") {
  // Computed apart from ringlet. If it must change, so must wire_version.
  CHECK(digest(example()) == 0x6bd45506274093f0u);
}
