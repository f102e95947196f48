// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <string>

#include "../ranks.hpp"
#include "ringlet/transport/fabric.hpp"

namespace tests {

// What tests set where a transport has it (ranks.hpp, suite/suite.hpp), this one has.
static_assert(requires(ringlet::fabric::settings s) { s.slots + s.slot_bytes + s.lanes + s.chord_bytes; });

// A name as a template argument.
template <std::size_t N>
struct name {
  char text[N];
  constexpr name(char const (&from)[N]) { std::copy(from, from + N, text); }
};

// Ranks over a provider of libfabric, which settings name, and the loopback interface. The transport is the same for
// all: what a program does over it is compiled once, however many providers it tries.
template <name Provider>
struct over : processes<ringlet::fabric> {
  static void set(ringlet::fabric::settings& s) {
    s.provider = std::string("=") + Provider.text;
    s.interface = "=lo";
  }
};

// The same over a provider of fake_provider.hpp, in a program that includes it. Its ranks are threads.
template <name Provider>
struct over_fake : threads<ringlet::fabric> {
  static void set(ringlet::fabric::settings& s) {
    over<Provider>::set(s);
    s.library = "";
  }
};

}  // namespace tests
