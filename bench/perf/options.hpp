// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace perf {

/// What the command line asks for. Where nccl-tests has an option it has the same letter here.
struct options {
  std::string collective;
  std::string transport = "shared_memory";
  int ranks = 2;
  std::size_t least = 8, most = std::size_t{32} << 20;  ///< bytes, of the whole buffer
  std::size_t factor = 2;                               ///< from one size to the next; 1: add `step` bytes instead
  std::size_t step = std::size_t{1} << 20;
  int iterations = 20, warm_up = 5, checks = 1;
  std::string type = "float", op = "sum";
  bool allocated = false;  ///< buffers come from the communicator
  bool pin = false;
  std::optional<std::size_t> slots, slot_bytes,
      lanes;                        ///< for transports that have these settings; else their defaults
  std::string provider, interface;  ///< of fabric
  double timeout = 60;              ///< seconds that a rank waits for its peers
  std::string json, svg;            ///< files to write; empty: none

  std::size_t next(std::size_t bytes) const { return factor > 1 ? bytes * factor : bytes + step; }
};

}  // namespace perf
