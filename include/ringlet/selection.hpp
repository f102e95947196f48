// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ringlet/config.hpp"

namespace ringlet {

/// How an operation among ranks that share memory goes. All give the same bits.
enum class route : std::uint8_t {
  one_shot,  ///< input travels on the boards; each rank computes all that it needs, and that is all
  direct,    ///< each rank computes its chunk in the others' memory, which must be within reach, and writes it there
  staged,    ///< the same in rounds, by way of memory that is within reach
  ring,      ///< slices through slots, from neighbour to neighbour
};

/// The route's name.
constexpr char const* to_string(route r) {
  constexpr char const* names[] = {"one-shot", "direct", "staged", "ring"};
  return names[static_cast<int>(r)];
}

/// Bytes of a row on a stage, which has two of them for each rank.
/// @param stage bytes of the stage
constexpr std::size_t stage_row(std::size_t stage, int ranks) {
  return stage / 2 / static_cast<std::size_t>(ranks) / interference * interference;
}

/// Which route an operation takes: a pure function of what all ranks know. The bounds are compared between ranks when
/// they connect. The defaults suit machines of the kind that README.md measures; `ringlet-perf --tune` fits them to
/// another one (tuning_file.hpp).
struct selection {
  /// The largest input of a rank, in bytes, that goes in one shot. Boards may be smaller: then that is the bound.
  std::size_t one_shot_bytes = 512;
  /// The largest input of all other ranks together, in bytes, that goes in one shot, too, when memory is out of reach.
  std::size_t boarded_bytes = std::size_t{32} << 10;
  /// The largest whole buffer, in bytes, that is staged when it is out of reach.
  std::size_t staged_bytes = std::size_t{4} << 20;

  friend bool operator==(selection const&, selection const&) = default;

  /// @param input bytes of one rank's input; of the longest, where they differ
  /// @param whole bytes of the whole buffer
  /// @param ranks how many there are
  /// @param in_reach whether all ranks can reach all memory that the operation needs
  /// @param board bytes of a board
  /// @param stages whether an element fits a row of a stage
  constexpr route choose(std::size_t input, std::size_t whole, int ranks, bool in_reach, std::size_t board,
                         bool stages) const {
    auto const others = static_cast<std::size_t>(ranks - 1);
    if (input <= board && (input <= one_shot_bytes || (!in_reach && input * others <= boarded_bytes)))
      return route::one_shot;
    if (in_reach) return route::direct;
    return whole <= staged_bytes && stages ? route::staged : route::ring;
  }

  /// The bounds as the text that ranks compare, and that files hold:
  /// `one_shot_bytes=512 boarded_bytes=32768 staged_bytes=4194304`.
  std::string describe() const {
    return "one_shot_bytes=" + std::to_string(one_shot_bytes) + " boarded_bytes=" + std::to_string(boarded_bytes) +
           " staged_bytes=" + std::to_string(staged_bytes);
  }
};

}  // namespace ringlet
