// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>

// The few macros of the library. Bodies are guarded by compiler, includes never are: a header must include the
// same files for the host and for the device, or nvcc's two passes see two different programs.

/// Marks a function for host and device. Empty where the compiler knows no device.
#if defined(__CUDACC__)
#define RINGLET_HD __host__ __device__
#else
#define RINGLET_HD
#endif

/// Stands before a template that serves host and device with the caller's own functors: nvcc would warn
/// whenever one of them is for the host only.
#if defined(__CUDACC__)
#define RINGLET_ANY_EXEC _Pragma("nv_exec_check_disable")
#else
#define RINGLET_ANY_EXEC
#endif

/// The version of the library, as major * 10000 + minor * 100 + patch.
#define RINGLET_VERSION 100

namespace ringlet {

/// The version of everything that ranks exchange: keys in the store, layout of shared segments, slots and boards.
/// Ranks that disagree refuse each other when connecting.
inline constexpr std::uint32_t wire_version = 3;

/// Bytes between two words that different ranks write. Two cache lines: processors fetch lines in pairs, so
/// 64 would let neighbours disturb each other.
inline constexpr std::size_t interference = 128;

}  // namespace ringlet
