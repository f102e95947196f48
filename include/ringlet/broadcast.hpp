// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <type_traits>

#include "ringlet/collective_operation.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/reduction.hpp"

namespace ringlet {

/// Starts a broadcast: every rank's output becomes the root's input, in exact bytes.
/// @param comm the communicator; one operation after the other, in the same order on all ranks
/// @param input at the root: any count, also 0; is not written. At other ranks it is not looked at, and may be empty
/// @param output as many elements, the same count on all ranks; may be the input itself, but not overlap it otherwise
/// @param root the rank whose input it is, the same on all ranks
/// @param how `keep{}`, or `travel_as<W>(keep{})`: then every rank, the root too, has what a W can hold
/// @return the operation: `poll`, `wait`, `cancel`. At the root it may be ready while others have not come yet
/// @throws error(errc::invalid_argument) when the buffers do not fit or there is no such root, before anything is sent
/// @throws error(errc::not_connected) when the communicator has failed before
template <class X, int Size, contiguous In, contiguous Out, class How = keep>
[[nodiscard]] auto async_broadcast(communicator<X, Size>& comm, In const& input, Out&& output, int root, How how = {}) {
  using T = element_of<Out>;
  static_assert(std::is_same_v<T, element_of<In const>>, "ringlet: input and output have different elements");
  static_assert(stays<Out>, "ringlet: the output would be gone before the operation is: give a buffer that stays");
  detail::check_root(root, comm.size());
  bool const mine = comm.rank() == root;
  return collective_operation<X, Size, collective::broadcast, T, How>(
      comm.session(), mine ? std::data(input) : std::data(output), mine ? std::size(input) : std::size(output),
      std::data(output), std::size(output), how, collective::broadcast, root);
}

/// Starts a broadcast in place: every rank's buffer becomes the root's.
template <class X, int Size, contiguous InOut, class How = keep>
[[nodiscard]] auto async_broadcast(communicator<X, Size>& comm, InOut&& buffer, int root, How how = {}) {
  static_assert(stays<InOut>, "ringlet: the buffer would be gone before the operation is: give one that stays");
  return async_broadcast(comm, buffer, buffer, root, how);
}

/// A broadcast, from beginning to end: see `async_broadcast`.
/// @throws error also what `wait` throws
template <class X, int Size, contiguous In, contiguous Out, class How = keep>
void broadcast(communicator<X, Size>& comm, In const& input, Out&& output, int root, How how = {}) {
  async_broadcast(comm, input, output, root, how).wait();
}

/// A broadcast in place.
template <class X, int Size, contiguous InOut, class How = keep>
void broadcast(communicator<X, Size>& comm, InOut&& buffer, int root, How how = {}) {
  async_broadcast(comm, buffer, buffer, root, how).wait();
}

}  // namespace ringlet
