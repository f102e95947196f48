// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "ringlet/combine.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/point_to_point.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/worker.hpp"

namespace perf {

/// Whether a collector is built to be measured beside a collective: it takes time to compile, so not for every type.
/// @tparam What the collective
/// @tparam T the element
/// @tparam Op the operator
/// @tparam X the transport
template <ringlet::collective What, class T, class Op, class X>
inline constexpr bool built_beside = What == ringlet::collective::all_reduce&& std::is_same_v<T, float>&&
                                                 std::is_same_v<Op, ringlet::sum>&& ringlet::pairwise<X>;

/// The obvious way to all-reduce: every rank sends its buffer to rank 0, which adds them up and sends the sum back.
/// Over the transport's own links and with the ring's own arithmetic, so that only the way differs.
/// @param in, out this rank's buffers, separate or one
/// @param theirs at rank 0: room for another rank's buffer
template <class T, class Op, class X>
void all_reduce_by_collector(ringlet::communicator<X>& comm, std::span<T> in, std::span<T> out, std::span<T> theirs,
                             Op op) {
  if (comm.rank() != 0) {
    ringlet::send(comm, in, 0);
    return ringlet::recv(comm, out, 0);
  }
  if (comm.size() == 1 && in.data() != out.data()) std::copy(in.begin(), in.end(), out.begin());
  ringlet::arithmetic<T, Op> const how(op, comm.size());
  T const* sum = in.data();
  for (int other = 1; other < comm.size(); ++other) {
    ringlet::recv(comm, theirs, other);
    ringlet::combine(ringlet::this_thread{}, static_cast<T*>(nullptr), out.data(), static_cast<T const*>(theirs.data()),
                     sum, out.size(), how, other == comm.size() - 1);
    sum = out.data();
  }
  using message = decltype(ringlet::async_send(comm, out, 0));
  std::vector<std::unique_ptr<message>> sent;
  for (int other = 1; other < comm.size(); ++other)
    sent.emplace_back(new message(ringlet::async_send(comm, out, other)));
  for (auto& each : sent) each->wait();
}

}  // namespace perf
