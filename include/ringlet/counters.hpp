// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>

#include "ringlet/clock.hpp"
#include "ringlet/operation.hpp"
#include "ringlet/schedule.hpp"
#include "ringlet/selection.hpp"

namespace ringlet {

/// What a rank has moved through a communicator so far, in operations that have ended well: `communicator::counters`.
/// Only elements count, in the type in which they travel, and a barrier's one byte a rank (none by chords).
struct counters {
  /// Slices sent, and boards shown: what was handed to others at once.
  std::uint64_t messages = 0;
  /// Bytes that have gone from this rank's memory to others', and from theirs to this one's, whoever moved them. An
  /// all-reduce of m bytes among n ranks makes it 2(n-1)/n m each, but for what goes in one shot or by chords,
  /// (n-1) m.
  std::uint64_t sent = 0, received = 0;
  /// Of what was sent, bytes that were first copied to memory of the transport: slots, boards, stages. What goes in
  /// one shot counts once, also where some ranks had to meet twice for it.
  std::uint64_t copied = 0;
  /// Time in which waits gave way to others or slept. Before a wait does so it polls, for some microseconds: to measure
  /// them would take longer.
  std::chrono::nanoseconds waited{};
};

namespace detail {

// The accounts of a communicator, kept so that an operation adds a few numbers only. What goes among ranks that share
// memory is a linear form of the bytes of the whole buffer and of this rank's chunk, and is worked out when somebody
// asks.
class ledger {
 public:
  [[gnu::noinline]] void went_round(movement const& m, std::size_t wire) noexcept {
    sums_.messages += m.slices;
    sums_.sent += m.sent * wire, sums_.received += m.received * wire;
    sums_.copied += (m.sent - m.straight) * wire;
  }
  // @param exchanges boards shown
  void went_among_mapped(collective what, route how, bool root, std::size_t exchanges, std::size_t whole,
                         std::size_t own) noexcept {
    sums_.messages += exchanges;
    if (how == route::ring) return;  // its slices say the rest
    entry& e = entries_[static_cast<int>(what)][static_cast<int>(how)][root];
    e.whole += whole, e.own += own;
  }
  void waited(std::chrono::nanoseconds time) noexcept { sums_.waited += time; }

  counters sum(int ranks) const {
    counters all = sums_;
    for (int what = 0; what < collectives; ++what)
      for (int how = 0; how < routes; ++how)
        for (bool root : {false, true}) {
          entry const& e = entries_[what][how][root];
          auto const at = [&](form f) { return f.whole * e.whole + f.own * e.own; };  // modulo 2^64, so -1 is well
          forms const f =
              forms_of(static_cast<collective>(what), static_cast<route>(how), root, static_cast<std::uint64_t>(ranks));
          all.sent += at(f.sent), all.received += at(f.received), all.copied += at(f.copied);
        }
    return all;
  }

 private:
  static constexpr int collectives = 6, routes = 3;
  struct entry {
    std::uint64_t whole, own;
  };
  struct form {
    std::uint64_t whole = 0, own = 0;
  };
  struct forms {
    form sent, received, copied;
  };
  static constexpr forms forms_of(collective what, route how, bool root, std::uint64_t n) {
    constexpr std::uint64_t minus = ~std::uint64_t{0};
    constexpr form nothing, all{1, 0}, mine{0, 1}, theirs{1, minus};
    form const mine_to_each{0, n - 1}, all_to_each{n - 1, 0};
    bool const board = how == route::one_shot, stage = how == route::staged;
    switch (what) {
      case collective::reduce_scatter: return {theirs, mine_to_each, board ? all : stage ? theirs : nothing};
      case collective::all_gather: return {mine_to_each, theirs, board || stage ? mine : nothing};
      case collective::all_reduce:
        if (board) return {all_to_each, all_to_each, all};
        return {{1, n - 2}, {1, n - 2}, stage ? all : nothing};
      case collective::broadcast:
        return {root ? all_to_each : nothing, root ? nothing : all, root && board ? all : nothing};
      case collective::reduce:
        if (board) return {root ? nothing : all, root ? all_to_each : nothing, all};
        return {root ? theirs : all, root ? form{1, n - 2} : mine_to_each, nothing};
      default: return {};
    }
  }

  counters sums_;
  entry entries_[collectives][routes][2] = {};
};

}  // namespace detail
}  // namespace ringlet
