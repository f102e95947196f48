// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "../timing.hpp"
#include "data.hpp"
#include "measure.hpp"
#include "operators.hpp"
#include "ringlet/all_gather.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/reduce_scatter.hpp"

namespace perf {

/// One collective at one size.
/// @tparam What which
/// @tparam T the element
/// @tparam Op the operator
/// @tparam X the transport
template <ringlet::collective What, class T, class Op, class X>
class measurement {
 public:
  /// `a` and `b` hold the largest size.
  measurement(any_communicator& any, ringlet::communicator<X>& comm, options const& o, std::span<T> a, std::span<T> b,
              std::size_t bytes)
      : any_(any), comm_(comm), options_(o) {
    auto const n = static_cast<std::size_t>(comm.size());
    std::size_t const whole = bytes / sizeof(T);
    count_ = What == ringlet::collective::all_reduce ? whole : whole / n;
    whole_ = What == ringlet::collective::all_reduce ? whole : count_ * n;  // equal chunks, as in nccl-tests
    mine_ = count_ * static_cast<std::size_t>(comm.rank());
    // Out of place from a to b. In place everything is in b.
    in_ = a.first(ringlet::whole_input(What) ? whole_ : count_);
    out_ = b.first(ringlet::whole_output(What) ? whole_ : count_);
    both_ = b.first(whole_);
  }

  row run(char const* type, char const* op) {
    return {whole_ * sizeof(T), count_, type, op, measure(false), measure(true)};
  }

 private:
  static constexpr bool reduces = What != ringlet::collective::all_gather;

  void once(bool in_place) {
    auto const op = [] {  // nothing smaller than 16 bits is reduced in its own type
      if constexpr (reduces && std::is_void_v<typename ringlet::computes_in<T>::type>)
        return ringlet::accumulate_in<float>(Op{});
      else
        return Op{};
    }();
    if constexpr (What == ringlet::collective::all_reduce) {
      ringlet::all_reduce(comm_, in_place ? both_ : in_, in_place ? both_ : out_, op);
    } else if constexpr (What == ringlet::collective::reduce_scatter) {
      ringlet::reduce_scatter(comm_, in_place ? both_ : in_, in_place ? both_.subspan(mine_, count_) : out_, op);
    } else {
      ringlet::all_gather(comm_, in_place ? both_.subspan(mine_, count_) : in_, in_place ? both_ : out_, op);
    }
  }

  // An element of rank r's input in all_gather stands in the whole buffer where it goes.
  void fill(bool in_place, std::uint64_t seed) {
    bool const part = !ringlet::whole_input(What);
    std::span<T> const to = !in_place ? in_ : part ? both_.subspan(mine_, count_) : both_;
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = input<T, Op>((part ? mine_ : 0) + i, reduces ? comm_.rank() : 0, comm_.size(), seed);
  }
  std::uint64_t wrong(bool in_place, std::uint64_t seed) const {
    bool const part = !ringlet::whole_output(What);
    std::span<T const> const from = !in_place ? out_ : part ? both_.subspan(mine_, count_) : both_;
    std::uint64_t n = 0;
    for (std::size_t i = 0; i < from.size(); ++i) {
      std::size_t const index = (part ? mine_ : 0) + i;
      T const right = reduces ? expected<T, Op>(index, comm_.size(), seed) : input<T, Op>(index, 0, comm_.size(), seed);
      n += !(from[i] == right);
    }
    return n;
  }

  result measure(bool in_place) {
    fill(in_place, 0);
    for (int i = 0; i < options_.warm_up; ++i) once(in_place);
    meet(any_);
    double const seconds = largest(any_, seconds_of(options_.iterations, [&] { once(in_place); }));

    std::optional<std::uint64_t> all_wrong;
    for (int check = 1; check <= options_.checks; ++check) {
      auto const seed = static_cast<std::uint64_t>(check);
      std::fill(both_.begin(), both_.end(), T{});
      fill(in_place, seed);
      once(in_place);
      all_wrong = all_wrong.value_or(0) + total(any_, wrong(in_place, seed));
    }

    double const n = comm_.size(), algbw = static_cast<double>(whole_ * sizeof(T)) / 1e9 / seconds;
    return {seconds * 1e6, algbw, algbw * (What == ringlet::collective::all_reduce ? 2 : 1) * (n - 1) / n, all_wrong};
  }

  any_communicator& any_;
  ringlet::communicator<X>& comm_;
  options const& options_;
  std::size_t whole_, count_, mine_;  // elements: in all, for each rank, before this rank's
  std::span<T> in_, out_, both_;
};

template <class T>
void measure_type(any_communicator& any, options const& o, char const* type, report& to) {
  auto const sizes = [&]<class Op, ringlet::collective What, class X>(ringlet::communicator<X>& comm, char const* op,
                                                                      std::span<T> a, std::span<T> b) {
    for (std::size_t bytes = o.least; bytes <= o.most; bytes = o.next(bytes)) {
      to.doing(bytes, type, op);
      to.add(measurement<What, T, Op, X>(any, comm, o, a, b, bytes).run(type, op));
    }
  };
  auto const reductions = [&]<ringlet::collective What>(auto& comm, std::span<T> a, std::span<T> b) {
    auto const one = [&]<class Op>(named<Op> op) {
      if constexpr (built<What, T, Op>)
        if (o.op == op.name || o.op == "all") sizes.template operator()<Op, What>(comm, op.name, a, b);
    };
    std::apply([&](auto... op) { (one(op), ...); }, operators);
  };
  auto const collectives = [&](auto& comm, std::span<T> a, std::span<T> b) {
    using ringlet::collective;
    if (o.collective == "all_reduce")
      reductions.template operator()<collective::all_reduce>(comm, a, b);
    else if (o.collective == "reduce_scatter")
      reductions.template operator()<collective::reduce_scatter>(comm, a, b);
    else
      sizes.template operator()<ringlet::keep, collective::all_gather>(comm, "none", a, b);
  };
  std::visit(
      [&](auto& comm) {
        std::size_t const count = o.most / sizeof(T);
        if (o.allocated) {
          auto const a = comm.template allocate<T>(count), b = comm.template allocate<T>(count);
          collectives(comm, std::span<T>(a.data(), count), std::span<T>(b.data(), count));
        } else {
          std::vector<T> a(count), b(count);
          collectives(comm, std::span<T>(a), std::span<T>(b));
        }
      },
      any);
}

}  // namespace perf
