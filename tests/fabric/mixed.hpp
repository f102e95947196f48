// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <vector>

#include "over.hpp"
#include "ringlet/bootstrap/same_host.hpp"
#include "ringlet/transport/mixed.hpp"
#include "ringlet/transport/shared_memory.hpp"

namespace tests {

// As if no more than two ranks that follow each other were on one host.
struct two_on_each {
  template <ringlet::meeting M>
  std::vector<std::string> operator()(M& m, ringlet::time_point until) const {
    auto names = ringlet::same_host{}(m, until);
    for (std::size_t rank = 0; rank < names.size(); ++rank) names[rank] += "/" + std::to_string(rank / 2);
    return names;
  }
};

// Shared memory inside such hosts, a provider of libfabric between them.
using mixed = ringlet::mixed<ringlet::shared_memory, ringlet::fabric, two_on_each>;
template <name Provider>
struct mixed_over : processes<mixed> {
  static void set(mixed::settings& s) { over<Provider>::set(s.far); }
};

}  // namespace tests
