// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "ringlet/config.hpp"
#include "ringlet/selection.hpp"

namespace perf {

/// ringlet's, as people write it.
inline std::string version() {
  return std::to_string(RINGLET_VERSION / 10000) + '.' + std::to_string(RINGLET_VERSION / 100 % 100) + '.' +
         std::to_string(RINGLET_VERSION % 100);
}

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
  bool collector = false;  ///< one is measured beside the collective
  bool pin = false;
  bool emulated = false;  ///< devices are played by the host
  // For transports that have these settings; else their defaults.
  std::optional<std::size_t> slots, slot_bytes, lanes, board_bytes, stage_bytes;
  std::optional<std::string> provider, interface;
  std::optional<int> root;      ///< of broadcast and reduce, 0 by default; -1: each rank in turn
  double timeout = 60;          ///< seconds that a rank waits for its peers
  ringlet::selection select{};  ///< which sizes take which route
  bool explain = false;         ///< only say which route each size takes
  std::string json, svg, tune;  ///< files to write; empty: none

  /// Bytes of a rank's buffers.
  double buffers() const {
    return collective == "barrier" || explain ? 0 : (tune.empty() ? 2.0 : 1.0) * static_cast<double>(most);
  }

  std::size_t next(std::size_t bytes) const {
    if (factor > 1) return bytes > most / factor ? most + 1 : bytes * factor;
    return bytes + step;
  }
};

}  // namespace perf
