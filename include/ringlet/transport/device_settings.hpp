// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ringlet/config.hpp"
#include "ringlet/error.hpp"
#include "ringlet/transport/shared_memory.hpp"

namespace ringlet {

/// How collectives on streams wait for other ranks.
enum class device_form : std::uint8_t {
  automatic,  ///< `kernel`, but `stream` where ranks share a device
  kernel,     ///< one kernel runs the whole collective, and waits on the device
  stream,     ///< the stream waits between small kernels, so that waiting occupies no device
};

/// How a call on devices goes, where one kernel runs it whole.
enum class device_route : std::uint8_t {
  lines,     ///< all input goes to all who need it as flagged lines: nobody waits for more than that
  one_shot,  ///< all input goes to the stages, and each rank computes all that it needs
  staged,  ///< each rank computes its chunk; directly in the others' memory where that is in reach, else by the stages
  ring,    ///< the same, or else by the ring
};

/// Which sizes take which route on devices: a pure function of what all ranks know, so that all choose alike. The
/// defaults are derived, not measured: one shot while sending everything to everyone takes no longer than another
/// meeting of all devices, and lines while sending everything twice does.
struct device_selection {
  /// The largest input of a rank, in bytes, times the number of other ranks, that goes as lines, if these hold it.
  std::size_t line_bytes = std::size_t{64} << 10;
  /// The same for one shot.
  std::size_t one_shot_bytes = std::size_t{1} << 20;
  /// The largest whole buffer, in bytes, that goes by the stages when it is out of reach.
  std::size_t staged_bytes = std::size_t{4} << 20;

  /// @param input bytes of one rank's input; of the longest, where they differ
  /// @param whole bytes of the whole buffer
  /// @param lines_hold whether lines hold it
  constexpr device_route choose(std::size_t input, std::size_t whole, int ranks, bool lines_hold) const {
    std::size_t const sent = input * static_cast<std::size_t>(ranks - 1);
    if (sent <= line_bytes && lines_hold) return device_route::lines;
    if (sent <= one_shot_bytes) return device_route::one_shot;
    return whole <= staged_bytes ? device_route::staged : device_route::ring;
  }
  std::string describe() const {
    return "line_bytes=" + std::to_string(line_bytes) + " one_shot_bytes=" + std::to_string(one_shot_bytes) +
           " staged_bytes=" + std::to_string(staged_bytes);
  }
};

/// What ranks of `cuda_ipc` agree on. The same on all of them, but for `host.directory`.
struct device_settings {
  /// Slices that a queue holds, at least 2.
  std::size_t slots = 4;
  /// Capacity of a slot in bytes, a multiple of 128.
  std::size_t slot_bytes = std::size_t{256} << 10;
  /// Parallel rings, a block each, 1 to 64.
  std::size_t lanes = 16;
  /// Memory of a lane, in bytes, by which the others reach what is out of reach otherwise; a multiple of 128, or 0.
  std::size_t stage_bytes = std::size_t{64} << 10;
  /// Lines of 8 bytes that a rank can send to another at a time on a lane.
  std::size_t line_count = 512;
  /// See `device_selection`.
  device_selection select{};
  /// Threads of a block, a multiple of 32 up to 512.
  unsigned threads = 512;
  /// See `device_form`.
  device_form form = device_form::automatic;
  /// Go by way of memory of the host, even where devices could reach each other.
  bool through_host = false;
  /// Of the host's memory, in which ranks find each other and tell faults, and by which what is on the host travels.
  shared_memory::settings host{};

  std::string describe() const {
    return "device slots=" + std::to_string(slots) + " slot_bytes=" + std::to_string(slot_bytes) +
           " lanes=" + std::to_string(lanes) + " stage_bytes=" + std::to_string(stage_bytes) +
           " line_count=" + std::to_string(line_count) + " " + select.describe() +
           " threads=" + std::to_string(threads) + " form=" + std::to_string(static_cast<int>(form)) +
           " through_host=" + std::to_string(through_host) + " host " + host.describe();
  }
  /// @throws error(errc::invalid_argument) naming the value that cannot work
  void check() const {
    auto refuse = [](std::string const& what, std::size_t given, std::string const& expected) {
      throw error(errc::invalid_argument, "device " + what + " is " + std::to_string(given) + ", expected " + expected);
    };
    if (slots < 2 || slots > 4096) refuse("slots", slots, "2 to 4096: with one, a ring locks");
    if (slot_bytes == 0 || slot_bytes % interference != 0 || slot_bytes > std::size_t{1} << 30)
      refuse("slot_bytes", slot_bytes, "a multiple of 128 up to 1 GiB");
    if (lanes < 1 || lanes > 64) refuse("lanes", lanes, "1 to 64");
    if (stage_bytes % interference != 0 || stage_bytes > std::size_t{1} << 30)
      refuse("stage_bytes", stage_bytes, "a multiple of 128 up to 1 GiB, or 0");
    if (line_count < 1 || line_count > std::size_t{1} << 20) refuse("line_count", line_count, "1 to 2^20");
    if (threads == 0 || threads % 32 != 0 || threads > 512) refuse("threads", threads, "a multiple of 32 up to 512");
    host.check();
  }
};

}  // namespace ringlet
