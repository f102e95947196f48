// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "ringlet/collective_operation.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/reduction.hpp"

namespace ringlet {

/// Starts an all-gather: every rank's output becomes all ranks' inputs, one after the other, in exact bytes. Chunks are
/// those of `comm.chunks(count)`: equal when the count divides by the size, else the first ones are one element longer.
/// @param comm the communicator; one operation after the other, in the same order on all ranks
/// @param input `comm.chunks(count).length(rank)` elements; is not written
/// @param output the whole buffer, any count, the same on all ranks; the input may be this rank's own chunk of it
/// @param how `keep{}`, or `travel_as<W>(keep{})`: then every rank, the giver too, has what a W can hold
/// @return the operation: `poll`, `wait`, `cancel`
/// @throws error(errc::invalid_argument) when the buffers do not fit, before anything is sent
/// @throws error(errc::not_connected) when the communicator has failed before
template <class X, int Size, contiguous In, contiguous Out, class How = keep>
[[nodiscard]] auto async_all_gather(communicator<X, Size>& comm, In const& input, Out&& output, How how = {}) {
  using T = element_of<Out>;
  static_assert(std::is_same_v<T, element_of<In const>>, "ringlet: input and output have different elements");
  static_assert(stays<Out>, "ringlet: the output would be gone before the operation is: give a buffer that stays");
  return collective_operation<X, Size, collective::all_gather, T, How>(
      comm.session(), std::data(input), std::size(input), std::data(output), std::size(output), how);
}

/// Starts an all-gather in place: each rank gives its own chunk of the buffer.
template <class X, int Size, contiguous InOut, class How = keep>
  requires(!contiguous<How>)
[[nodiscard]] auto async_all_gather(communicator<X, Size>& comm, InOut&& buffer, How how = {}) {
  static_assert(stays<InOut>, "ringlet: the buffer would be gone before the operation is: give one that stays");
  using T = element_of<InOut>;
  partition const chunks = comm.chunks(std::size(buffer));
  auto const me = static_cast<std::size_t>(comm.rank());
  return collective_operation<X, Size, collective::all_gather, T, How>(
      comm.session(), std::data(buffer) + chunks.offset(me), chunks.length(me), std::data(buffer), chunks.count, how);
}

/// An all-gather, from beginning to end: see `async_all_gather`.
/// @throws error also what `wait` throws
template <class X, int Size, contiguous In, contiguous Out, class How = keep>
void all_gather(communicator<X, Size>& comm, In const& input, Out&& output, How how = {}) {
  async_all_gather(comm, input, output, how).wait();
}

/// An all-gather in place.
template <class X, int Size, contiguous InOut, class How = keep>
  requires(!contiguous<How>)
void all_gather(communicator<X, Size>& comm, InOut&& buffer, How how = {}) {
  async_all_gather(comm, buffer, how).wait();
}

}  // namespace ringlet
