// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "ringlet/collective_operation.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/reduction.hpp"

namespace ringlet {

/// Starts a reduce-scatter: rank r's output becomes chunk r of the reduction of all inputs. Chunks are those of
/// `comm.chunks(count)`: equal when the count divides by the size, else the first ones are one element longer.
/// @param comm the communicator; one operation after the other, in the same order on all ranks
/// @param input the whole buffer, any count, the same on all ranks; is not written unless the output lies in it
/// @param output `comm.chunks(count).length(rank)` elements; may be this rank's own chunk of the input
/// @param op the operator, with its policies
/// @return the operation: `poll`, `wait`, `cancel`
/// @throws error(errc::invalid_argument) when the buffers do not fit, before anything is sent
/// @throws error(errc::not_connected) when the communicator has failed before
template <class X, int Size, contiguous In, contiguous Out, class Op = sum>
[[nodiscard]] auto async_reduce_scatter(communicator<X, Size>& comm, In const& input, Out&& output, Op op = {}) {
  using T = element_of<Out>;
  static_assert(std::is_same_v<T, element_of<In const>>, "ringlet: input and output have different elements");
  static_assert(stays<Out>, "ringlet: the output would be gone before the operation is: give a buffer that stays");
  return collective_operation<X, Size, collective::reduce_scatter, T, Op>(
      comm.session(), std::data(input), std::size(input), std::data(output), std::size(output), op);
}

/// Starts a reduce-scatter in place: the result is left where rank r's chunk of the buffer is (NCCL's rule); the other
/// chunks keep what they held.
template <class X, int Size, contiguous InOut, class Op = sum>
  requires(!contiguous<Op>)
[[nodiscard]] auto async_reduce_scatter(communicator<X, Size>& comm, InOut&& buffer, Op op = {}) {
  static_assert(stays<InOut>, "ringlet: the buffer would be gone before the operation is: give one that stays");
  using T = element_of<InOut>;
  partition const chunks = comm.chunks(std::size(buffer));
  auto const me = static_cast<std::size_t>(comm.rank());
  return collective_operation<X, Size, collective::reduce_scatter, T, Op>(
      comm.session(), std::data(buffer), chunks.count, std::data(buffer) + chunks.offset(me), chunks.length(me), op);
}

/// A reduce-scatter, from beginning to end: see `async_reduce_scatter`.
/// @throws error also what `wait` throws
template <class X, int Size, contiguous In, contiguous Out, class Op = sum>
void reduce_scatter(communicator<X, Size>& comm, In const& input, Out&& output, Op op = {}) {
  async_reduce_scatter(comm, input, output, op).wait();
}

/// A reduce-scatter in place.
template <class X, int Size, contiguous InOut, class Op = sum>
  requires(!contiguous<Op>)
void reduce_scatter(communicator<X, Size>& comm, InOut&& buffer, Op op = {}) {
  async_reduce_scatter(comm, buffer, op).wait();
}

}  // namespace ringlet
