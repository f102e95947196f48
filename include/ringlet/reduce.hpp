// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <type_traits>

#include "ringlet/collective_operation.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/error.hpp"
#include "ringlet/reduction.hpp"

namespace ringlet {

/// Starts a reduce: the root's output becomes the reduction of all ranks' inputs, element by element, added up in the
/// order of ranks root+1, root+2, ..., root (mod size).
/// @param comm the communicator; one operation after the other, in the same order on all ranks
/// @param input any count, also 0, the same on all ranks; is not written
/// @param output at the root: as many elements; may be the input itself, but not overlap it otherwise. At other ranks
///   it is not looked at, and may be empty
/// @param root the rank that gets the result, the same on all ranks
/// @param op the operator, with its policies
/// @return the operation: `poll`, `wait`, `cancel`
/// @throws error(errc::invalid_argument) when the buffers do not fit or there is no such root, before anything is sent
/// @throws error(errc::not_connected) when the communicator has failed before
template <class X, int Size, contiguous In, contiguous Out, class Op = sum>
[[nodiscard]] auto async_reduce(communicator<X, Size>& comm, In const& input, Out&& output, int root, Op op = {}) {
  using T = element_of<Out>;
  static_assert(std::is_same_v<T, element_of<In const>>, "ringlet: input and output have different elements");
  static_assert(stays<Out>, "ringlet: the output would be gone before the operation is: give a buffer that stays");
  detail::check_root(root, comm.size());
  bool const mine = comm.rank() == root;
  if (mine && std::size(output) != std::size(input))
    throw error(errc::invalid_argument, detail::words("the root's output has %zu elements, its input %zu: give as many",
                                                      std::size(output), std::size(input)));
  return collective_operation<X, Size, collective::reduce, T, Op>(
      comm.session(), std::data(input), std::size(input), mine ? std::data(output) : nullptr,
      mine ? std::size(output) : 0, op, collective::reduce, root);
}

/// Starts a reduce in place: the root's buffer becomes the result, the others keep what they held.
template <class X, int Size, contiguous InOut, class Op = sum>
[[nodiscard]] auto async_reduce(communicator<X, Size>& comm, InOut&& buffer, int root, Op op = {}) {
  static_assert(stays<InOut>, "ringlet: the buffer would be gone before the operation is: give one that stays");
  return async_reduce(comm, buffer, buffer, root, op);
}

/// A reduce, from beginning to end: see `async_reduce`.
/// @throws error also what `wait` throws
template <class X, int Size, contiguous In, contiguous Out, class Op = sum>
void reduce(communicator<X, Size>& comm, In const& input, Out&& output, int root, Op op = {}) {
  async_reduce(comm, input, output, root, op).wait();
}

/// A reduce in place.
template <class X, int Size, contiguous InOut, class Op = sum>
void reduce(communicator<X, Size>& comm, InOut&& buffer, int root, Op op = {}) {
  async_reduce(comm, buffer, buffer, root, op).wait();
}

}  // namespace ringlet
