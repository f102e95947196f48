// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "ringlet/collective_operation.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/reduction.hpp"

namespace ringlet {

/// Starts a barrier: it is ready once every rank has started it. It is an all-reduce of one byte a rank, so that every
/// rank's output hangs on every other's input; what must not be reordered is ordered by it, on all transports alike.
/// @param comm the communicator; one operation after the other, in the same order on all ranks
/// @return the operation: `poll`, `wait`, `cancel`
/// @throws error(errc::not_connected) when the communicator has failed before
template <class X, int Size>
[[nodiscard]] auto async_barrier(communicator<X, Size>& comm) {
  auto& cells = comm.session().barrier_cells;
  return collective_operation<X, Size, collective::all_reduce, std::uint8_t, bit_or>(
      comm.session(), cells.data(), cells.size(), cells.data(), cells.size(), {}, collective::barrier);
}

/// Waits until every rank has called it.
/// @throws error also what `wait` throws
template <class X, int Size>
void barrier(communicator<X, Size>& comm) {
  async_barrier(comm).wait();
}

}  // namespace ringlet
