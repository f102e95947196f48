// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <type_traits>
#include <utility>

#include "ringlet/collective_operation.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/reduction.hpp"

namespace ringlet {

/// Starts an all-reduce: every rank's output becomes the reduction of all ranks' inputs, element by element, in the
/// same bits on all ranks. Chunk c is added up in the order of ranks c+1, c+2, ..., c (mod size).
/// @param comm the communicator; one operation after the other, in the same order on all ranks
/// @param input any count, also 0, the same on all ranks; is not written
/// @param output as many elements; may be the input itself, but not overlap it otherwise
/// @param op the operator, with its policies
/// @return the operation: `poll`, `wait`, `cancel`
/// @throws error(errc::invalid_argument) when the buffers do not fit, before anything is sent
/// @throws error(errc::not_connected) when the communicator has failed before
template <class X, int Size, contiguous In, contiguous Out, class Op = sum>
[[nodiscard]] auto async_all_reduce(communicator<X, Size>& comm, In const& input, Out&& output, Op op = {}) {
  using T = element_of<Out>;
  static_assert(std::is_same_v<T, element_of<In const>>, "ringlet: input and output have different elements");
  static_assert(stays<Out>, "ringlet: the output would be gone before the operation is: give a buffer that stays");
  return collective_operation<X, Size, collective::all_reduce, T, Op>(
      comm.session(), std::data(input), std::size(input), std::data(output), std::size(output), op);
}

/// Starts an all-reduce in place.
template <class X, int Size, contiguous InOut, class Op = sum>
  requires(!contiguous<Op>)
[[nodiscard]] auto async_all_reduce(communicator<X, Size>& comm, InOut&& buffer, Op op = {}) {
  static_assert(stays<InOut>, "ringlet: the buffer would be gone before the operation is: give one that stays");
  return async_all_reduce(comm, buffer, buffer, op);
}

/// An all-reduce, from beginning to end: see `async_all_reduce`.
/// @throws error also what `wait` throws
template <class X, int Size, contiguous In, contiguous Out, class Op = sum>
void all_reduce(communicator<X, Size>& comm, In const& input, Out&& output, Op op = {}) {
  async_all_reduce(comm, input, output, op).wait();
}

/// An all-reduce in place.
template <class X, int Size, contiguous InOut, class Op = sum>
  requires(!contiguous<Op>)
void all_reduce(communicator<X, Size>& comm, InOut&& buffer, Op op = {}) {
  async_all_reduce(comm, buffer, buffer, op).wait();
}

}  // namespace ringlet
