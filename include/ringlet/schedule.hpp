// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "ringlet/config.hpp"

namespace ringlet {

/// What a collective leaves behind. A buffer of `count` elements is cut into `size` chunks by `partition`.
enum class collective : std::uint8_t {
  reduce_scatter,  ///< rank r: the sum, over all ranks, of chunk r
  all_gather,      ///< every rank: chunk r as rank r gave it, for all r
  all_reduce,      ///< every rank: the sum of all buffers
  barrier,         ///< nothing but the knowledge that everyone has come; no schedule
  broadcast,       ///< every rank: the buffer of one rank, the root
  reduce,          ///< the root: the sum of all buffers; the other ranks: nothing
  message,         ///< one rank: the buffer of another one; a broadcast among two
};

/// Whether one rank, the root, is unlike the others.
RINGLET_HD constexpr bool rooted(collective c) { return c == collective::broadcast || c == collective::reduce; }
/// Whether a rank that brings something brings the whole buffer, rather than its own chunk only.
RINGLET_HD constexpr bool whole_input(collective c) { return c != collective::all_gather; }
/// Whether a rank that ends with something ends with the whole buffer, rather than with its own chunk only.
RINGLET_HD constexpr bool whole_output(collective c) { return c != collective::reduce_scatter; }

/// Whether contributions are added up.
RINGLET_HD constexpr bool reduces(collective c) {
  return c == collective::reduce_scatter || c == collective::all_reduce || c == collective::reduce;
}

/// The collective's name.
constexpr char const* to_string(collective c) {
  constexpr char const* names[] = {"reduce_scatter", "all_gather", "all_reduce", "barrier",
                                   "broadcast",      "reduce",     "message"};
  return static_cast<unsigned>(c) < 7 ? names[static_cast<unsigned>(c)] : "an unknown collective";
}

/// The four things that a step may do with its chunk. Textbooks' verbs are combinations of them: "receive, reduce and
/// send on" is {true, true, false, true}.
struct action {
  bool receive;  ///< take the chunk, a slice at a time, from the previous rank
  bool reduce;   ///< add this rank's own contribution to what was received
  bool keep;     ///< leave the value in this rank's output: it is final
  bool send;     ///< pass the value on to the next rank

  friend constexpr bool operator==(action, action) = default;
};

/// One entry of a schedule: what to do, and with which chunk.
struct step {
  action does;
  int chunk;

  friend constexpr bool operator==(step, step) = default;
};

/// What one rank does, as a closed form: a value without memory, asked for step after step.
///
/// Contract. `S(rank, size)` is the schedule of `rank` among `size` ranks, `0 <= rank < size`. `s[k]`, for
/// `0 <= k < s.steps()`, is step k; every slice of a chunk goes through the steps in this order. `S::does` says what
/// all ranks together achieve. The chunks that a rank sends are, in order, those that the next rank receives. A value
/// that is kept is final: whoever receives it from here keeps it too. Whether that adds up is what `proved<S>(n)`
/// answers.
///
/// A minimal model, for a world of one:
/// @code
/// struct alone {
///   static constexpr ringlet::collective does = ringlet::collective::all_reduce;
///   int rank, size;
///   constexpr int steps() const { return 1; }
///   constexpr ringlet::step operator[](int) const { return {{false, false, true, false}, 0}; }
/// };
/// @endcode
template <class S>
concept schedule = requires(S const s, int k) {
  { S::does } -> std::convertible_to<collective>;
  S{k, k};
  { s.steps() } -> std::same_as<int>;
  { s[k] } -> std::same_as<step>;
};

/// The number of ranks when it is known only when running.
inline constexpr int dynamic_size = -1;

/// The ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009).
///
/// One formula serves the three collectives. Think of 2n-1 moments 0 ... 2n-2. At moment i, rank r works on chunk
/// r-1-i (mod n): a chunk travels one rank a moment. It starts at moment 0 with one contribution, gains one at each
/// hop, and at moment n-1 stands complete at the rank whose number it bears; the n-1 moments after that hand it round.
/// all_reduce is all of them, reduce_scatter the moments up to n-1, all_gather those from n-1 on. The first moment has
/// nothing to receive, the last nobody to send to. So each rank sends n-1 or 2(n-1) chunks: 2(n-1)/n of the buffer.
///
/// With a root it is a pipeline, and ranks are counted from the root, which is rank 0 here. In a broadcast slices go
/// from rank 0 through all ranks to the last one; in a reduce from rank 1 through all to the root, and each rank adds
/// its own. Chunks go one after the other, so that a rank passes one slice on while the next one arrives: each link
/// carries the buffer once.
/// @tparam What any collective that has one
/// @tparam Size the number of ranks, or `dynamic_size`; when known, an operation unrolls its steps
template <collective What, int Size = dynamic_size>
  requires(What != collective::barrier && What != collective::message)
struct ring_schedule {
  static constexpr collective does = What;
  /// The size when it is known while compiling.
  static constexpr int extent = Size;

  int rank;        ///< whose steps these are
  int size_given;  ///< the number of ranks; of no matter when it is known while compiling

  // As the concept says.
  RINGLET_HD constexpr int size() const { return Size == dynamic_size ? size_given : Size; }
  RINGLET_HD constexpr int steps() const { return rooted(What) ? size() : last() - first() + 1; }
  RINGLET_HD constexpr step operator[](int k) const {
    if constexpr (rooted(What)) {
      bool const begins = rank == (reduces(What) ? 1 % size() : 0), ends = rank == (reduces(What) ? 0 : size() - 1);
      return {{!begins, reduces(What) && !begins, !reduces(What) || ends, !ends}, k};
    }
    int const moment = first() + k, complete = size() - 1;
    bool const receive = moment > first(), send = moment < last();
    return {{receive, receive && moment <= complete, moment >= complete, send},
            (rank - 1 - moment + 3 * size()) % size()};
  }

 private:
  RINGLET_HD constexpr int first() const { return What == collective::all_gather ? size() - 1 : 0; }
  RINGLET_HD constexpr int last() const { return What == collective::reduce_scatter ? size() - 1 : 2 * size() - 2; }
};

}  // namespace ringlet
