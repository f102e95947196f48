// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Memory of (emulated) devices between hosts: device, host, wire, host, device.

#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <string>

#include "../emulated.hpp"
#include "../fabric/over.hpp"
#include "ringlet/through_host.hpp"

using namespace tests;

namespace {
// Here, before there are ranks: each of them would spend a third of a second on it.
[[maybe_unused]] auto const& loaded = ringlet::fabric_library::open("libfabric.so.1");
}  // namespace

TEST_CASE_TEMPLATE("sums of memory of devices over libfabric", Ranks, over<"net">, over<"tcp;ofi_rxm">) {
  CHECK(on<Ranks>(3, [](auto& comm) {
          using R = emulated;
          ringlet::host_staging<R> staging(std::size_t{64} << 10, 4);
          stream s;
          constexpr std::size_t count = 300'001;
          auto* const memory = static_cast<float*>(R::allocate(count * sizeof(float)));
          for (int round = 1; round <= 2; ++round) {
            for (std::size_t i = 0; i < count; ++i)
              memory[i] = static_cast<float>(i % 1000 + static_cast<unsigned>(comm.rank()));
            ringlet::all_reduce(ringlet::through(staging, s.get()), comm, std::span<float>(memory, count));
            R::synchronise(s.get());
            for (std::size_t i = 0; i < count; ++i)
              expect(memory[i] == static_cast<float>(3 * (i % 1000) + 3), "element " + std::to_string(i) + " is wrong");
          }
        }) == 0);
}
