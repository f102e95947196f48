// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <string>

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

// The fabric transport whose settings name a provider, over the loopback interface.
template <name Provider>
class over : public ringlet::fabric {
 public:
  struct settings : ringlet::fabric::settings {
    settings() {
      provider = std::string("=") + Provider.text;
      interface = "=lo";
    }
  };
  using fabric::fabric;
};

// The same over a provider of fake_provider.hpp, in a program that includes it. Its ranks are threads.
template <name Provider>
class over_fake : public ringlet::fabric {
 public:
  struct settings : ringlet::fabric::settings {
    settings() {
      provider = std::string("=") + Provider.text;
      interface = "=lo";
      library = "";
    }
  };
  using fabric::fabric;
};

}  // namespace tests
