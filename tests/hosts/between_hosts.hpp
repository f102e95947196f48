// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ringlet/transport/fabric.hpp"

namespace tests {

// Over a TCP provider, from the address that the host has for others.
struct between_hosts : ringlet::fabric {
  struct settings : ringlet::fabric::settings {
    settings() { provider = "=net,tcp", interface = "=eth0"; }
  };
  using fabric::fabric;
};

}  // namespace tests
