// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "../timing.hpp"
#include "collector.hpp"
#include "data.hpp"
#include "measure.hpp"
#include "memory.hpp"
#include "operators.hpp"
#include "ringlet/all_gather.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/broadcast.hpp"
#include "ringlet/reduce.hpp"
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
  /// @param root of a collective that has one
  measurement(any_communicator& any, ringlet::communicator<X>& comm, place<X>& where, options const& o, std::span<T> a,
              std::span<T> b, std::size_t bytes, int root)
      : any_(any), comm_(comm), place_(where), options_(o), root_(root) {
    auto const n = static_cast<std::size_t>(comm.size());
    std::size_t const whole = bytes / sizeof(T);
    bool const in_chunks = !ringlet::whole_input(What) || !ringlet::whole_output(What);
    count_ = in_chunks ? whole / n : whole;
    whole_ = in_chunks ? count_ * n : whole;  // equal chunks, as in nccl-tests
    mine_ = count_ * static_cast<std::size_t>(comm.rank());
    // Out of place from a to b. In place everything is in b.
    in_ = a.first(ringlet::whole_input(What) ? whole_ : count_);
    out_ = b.first(ringlet::whole_output(What) ? whole_ : count_);
    both_ = b.first(whole_);
  }

  row run(char const* type, char const* op) {
    return {whole_ * sizeof(T), count_, type, op, measure(false), measure(true), root_};
  }
  /// The same by a collector.
  row run_collector(char const* type, char const* op) {
    std::vector<T> theirs(comm_.rank() == 0 ? whole_ : 0);
    theirs_ = theirs;
    collects_ = true;
    row r = run(type, op);
    r.root = 0;
    r.by_collector = true;
    return r;
  }

 private:
  static constexpr bool reduces = ringlet::reduces(What);

  void once(bool in_place) {
    if constexpr (built_beside<What, T, Op, X>)
      if (collects_)
        return all_reduce_by_collector(comm_, in_place ? both_ : in_, in_place ? both_ : out_, theirs_, Op{});
    auto const op = [] {  // nothing smaller than 16 bits is reduced in its own type
      if constexpr (reduces && std::is_void_v<typename ringlet::computes_in<T>::type>)
        return ringlet::accumulate_in<float>(Op{});
      else
        return Op{};
    }();
    place_.call(comm_, [&](auto&&... first) {
      if constexpr (What == ringlet::collective::all_reduce) {
        ringlet::all_reduce(first..., in_place ? both_ : in_, in_place ? both_ : out_, op);
      } else if constexpr (What == ringlet::collective::reduce_scatter) {
        ringlet::reduce_scatter(first..., in_place ? both_ : in_, in_place ? both_.subspan(mine_, count_) : out_, op);
      } else if constexpr (What == ringlet::collective::broadcast) {
        ringlet::broadcast(first..., in_place ? both_ : in_, in_place ? both_ : out_, root_, op);
      } else if constexpr (What == ringlet::collective::reduce) {
        ringlet::reduce(first..., in_place ? both_ : in_, in_place ? both_ : out_, root_, op);
      } else {
        ringlet::all_gather(first..., in_place ? both_.subspan(mine_, count_) : in_, in_place ? both_ : out_, op);
      }
    });
  }

  // What rank r gives. In all_gather an element stands in the whole buffer where it goes, whoever gives it.
  T given(std::size_t index, int rank, std::uint64_t seed) const {
    return input<T, Op>(index, ringlet::whole_input(What) ? rank : 0, comm_.size(), seed);
  }
  void fill(bool in_place, std::uint64_t seed) {
    bool const part = !ringlet::whole_input(What);
    std::span<T> const to = !in_place ? in_ : part ? both_.subspan(mine_, count_) : both_;
    place_.fill(to, [&](std::size_t i) { return given((part ? mine_ : 0) + i, comm_.rank(), seed); });
  }
  // What an element of the output is after it. Of a reduce the root alone has a result, and the others what they had.
  T right(bool in_place, std::size_t index, std::uint64_t seed) const {
    if constexpr (What == ringlet::collective::reduce)
      if (comm_.rank() != root_) return in_place ? given(index, comm_.rank(), seed) : T{};
    return reduces ? expected<T, Op>(index, comm_.size(), seed) : given(index, root_, seed);
  }
  std::uint64_t wrong(bool in_place, std::uint64_t seed) {
    bool const part = !ringlet::whole_output(What);
    std::span<T const> const from = !in_place ? out_ : part ? both_.subspan(mine_, count_) : both_;
    std::uint64_t n = 0;
    place_.for_each(from,
                    [&](std::size_t i, T const& got) { n += !(got == right(in_place, (part ? mine_ : 0) + i, seed)); });
    return n;
  }

  result measure(bool in_place) {
    fill(in_place, 0);
    for (int i = 0; i < options_.warm_up; ++i) once(in_place);
    place_.wait(comm_);
    meet(any_);
    ringlet::counters const before = comm_.counters();
    double const mine = seconds_of(1, [&] {
      for (int i = 0; i < options_.iterations; ++i) once(in_place);
      place_.wait(comm_);
    });
    std::optional<double> carried;
    if constexpr (!has_devices<X>) {  // what goes into streams is not counted
      ringlet::counters const after = comm_.counters();
      auto const bytes = static_cast<double>(after.sent - before.sent + after.received - before.received);
      carried = largest(any_, bytes) / options_.iterations;
    }
    double const seconds = largest(any_, mine) / options_.iterations;

    std::optional<std::uint64_t> all_wrong;
    for (int check = 1; check <= options_.checks; ++check) {
      auto const seed = static_cast<std::uint64_t>(check);
      place_.fill(both_, [](std::size_t) { return T{}; });
      fill(in_place, seed);
      once(in_place);
      place_.wait(comm_);
      all_wrong = all_wrong.value_or(0) + total(any_, wrong(in_place, seed));
    }

    double const n = comm_.size(), algbw = static_cast<double>(whole_ * sizeof(T)) / 1e9 / seconds;
    double const factor = ringlet::rooted(What)                     ? 1
                          : What == ringlet::collective::all_reduce ? 2 * (n - 1) / n
                                                                    : (n - 1) / n;
    return {seconds * 1e6, algbw, algbw * factor, all_wrong, carried};
  }

  any_communicator& any_;
  ringlet::communicator<X>& comm_;
  place<X>& place_;
  options const& options_;
  int root_;
  std::size_t whole_, count_, mine_;  // elements: in all, for each rank, before this rank's
  std::span<T> in_, out_, both_, theirs_;
  bool collects_ = false;
};

/// All sizes of one collective with one type.
/// @tparam T the element
/// @tparam X the transport
template <class T, class X>
struct series {
  any_communicator& any;
  ringlet::communicator<X>& comm;
  place<X>& where;
  options const& o;
  char const* type;
  report& to;
  std::span<T> a, b;
  std::size_t unit = 1;  ///< what the table counts, in elements

  /// The first root and the last: nccl-tests' -1 where there is none.
  template <ringlet::collective What>
  std::pair<int, int> roots() const {
    if (!ringlet::rooted(What)) return {-1, -1};
    int const root = o.root.value_or(0);
    return root < 0 ? std::pair(0, comm.size() - 1) : std::pair(root, root);
  }
  template <ringlet::collective What, class Op>
  void sizes(char const* op) {
    if constexpr (!has_devices<X> || built_for_devices<What, T, Op>) {
      auto const [first, last] = roots<What>();
      bool const in_chunks = !ringlet::whole_input(What) || !ringlet::whole_output(What);
      std::size_t const least = unit * (in_chunks ? static_cast<std::size_t>(comm.size()) : 1);
      for (std::size_t bytes = o.least; bytes <= o.most; bytes = o.next(bytes))
        for (int root = first; root <= last; ++root) {
          to.doing(bytes, type, op);
          measurement<What, T, Op, X> m(any, comm, where, o, a, b, bytes / least * least, root);
          row its = m.run(type, op);
          its.count /= unit;
          to.add(std::move(its));
          if constexpr (built_beside<What, T, Op, X>)
            if (o.collector) to.add(m.run_collector(type, op));
        }
    }
  }
  template <ringlet::collective What, class Op>
  void if_asked_for(named<Op> op) {
    if constexpr (built<What, T, Op>)
      if (o.op == op.name || o.op == "all") sizes<What, Op>(op.name);
  }
  template <ringlet::collective What>
  void operators_asked_for() {
    std::apply([&](auto... op) { (this->template if_asked_for<What>(op), ...); }, operators);
  }
  void run() {
    using ringlet::collective;
    if (o.collective == "all_reduce")
      operators_asked_for<collective::all_reduce>();
    else if (o.collective == "reduce_scatter")
      operators_asked_for<collective::reduce_scatter>();
    else if (o.collective == "reduce")
      operators_asked_for<collective::reduce>();
    else if constexpr (has_devices<X>)  // else it is one of measure_moves
      sizes<collective::all_gather, ringlet::keep>("none");
  }
};

/// Calls `f` with the series of elements of one type.
template <class T, class F>
void with_series(any_communicator& any, options const& o, char const* type, report& to, F&& f) {
  std::visit(
      [&]<class X>(ringlet::communicator<X>& comm) {
        place<X> where;
        where.template with_buffers<T>(comm, o, o.most / sizeof(T), [&](std::span<T> a, std::span<T> b) {
          f(series<T, X>{any, comm, where, o, type, to, a, b});
        });
      },
      any);
}

template <class T>
void measure_type(any_communicator& any, options const& o, char const* type, report& to) {
  with_series<T>(any, o, type, to, [](auto its) { its.run(); });
}

}  // namespace perf
