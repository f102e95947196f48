// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "ringlet/call.hpp"
#include "ringlet/combine.hpp"
#include "ringlet/config.hpp"
#include "ringlet/mapped_peers.hpp"
#include "ringlet/operation.hpp"
#include "ringlet/schedule.hpp"
#include "ringlet/selection.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/worker.hpp"

namespace ringlet {

namespace detail {

// Fetches the cache line of a board that is soon written, and that others have read: what is done until then hides the
// way.
inline void will_write(void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<char*>(line)));  // the builtin fetches for reading, without -mprfchw
#else
  __builtin_prefetch(line, 1);
#endif
}

// What a rank shows of its memory: where its input and its output lie, where others need them.
enum shown_memory { input, output };

// How ranks that have shown their memory go on; nothing while only some have their input on their boards. All look at
// the same boards, so all see the same. One function for each transport, not for each operation.
template <class Peers>
[[gnu::noinline]] constexpr std::optional<route> agreed(Peers& peers, bool inputs, bool outputs) {
  int boards = 0;
  route way = route::direct;
  for (int peer = 0; peer < peers.size(); ++peer) {
    position const* const its = peers.template read<position>(peer, 2);
    boards += its[inputs ? input : output].window == position::on_board;
    for (auto which : {input, output}) {
      if (!(which == input ? inputs : outputs)) continue;
      if (its[which].window == 0) way = route::ring;
      if (its[which].window == position::on_stage && way == route::direct) way = route::staged;
    }
  }
  return boards == 0 ? std::optional(way) : boards == peers.size() ? std::optional(route::one_shot) : std::nullopt;
}

// Room for values. In bytes where a type has no default constructor: it is copied to, as everywhere.
template <class V, std::size_t N>
struct scratch {
  V values[N];
  constexpr V* data() { return values; }
};
template <class V, std::size_t N>
  requires(!std::is_default_constructible_v<V>)
struct scratch<V, N> {
  alignas(V) unsigned char bytes[N * sizeof(V)];
  V* data() { return reinterpret_cast<V*>(bytes); }
};
template <class T>
constexpr std::size_t elements_in(std::size_t bytes) {
  return bytes < sizeof(T) ? 1 : bytes / sizeof(T);
}

}  // namespace detail

/// A collective among peers whose memory is mapped: no ring, no steps. All meet in an exchange, which shows at once
/// whether they called the same thing. Small input travels on the boards, and that is all. Otherwise the boards say
/// where buffers lie: if everyone can reach what it needs, each rank makes one pass over its own chunk between two
/// exchanges. Where it is of moderate size, a rank whose memory is out of reach has its input on its board as well; if
/// that is so of some ranks only, all meet again, each with its input on its board. What is larger is copied to and
/// from stages, as much at a time as these hold, with one exchange a round: each says that the last round's results are
/// there and that the next one's input is.
/// @tparam What the collective
/// @tparam Arithmetic what one hop does to a value
/// @tparam Peers the mapped peers
template <collective What, class Arithmetic, class Peers>
class direct_operation {
 public:
  using element = typename Arithmetic::element;

  /// @param called what this rank called; must outlive the operation, and be complete when it is first polled
  constexpr direct_operation(Peers& peers, buffers<element> at, Arithmetic how, call const& called, selection const& s)
      : peers_(&peers), at_(at), how_(how), called_(&called), select_(s), longest_(at.chunks.longest()) {
    if (!__builtin_is_constant_evaluated()) detail::will_write(peers.template board<element>(0));
  }
  direct_operation(direct_operation const&) = delete;
  direct_operation& operator=(direct_operation const&) = delete;

  /// Goes as far as it can without waiting. `ready` with `route() == route::ring` means that all have met and that a
  /// ring operation is to follow. `failed`: somebody called something else (`disagreeing`), or a fault was told.
  constexpr status poll() {
    if (round_ < 0) come();
    for (;; show()) {
      if (!all_read()) return differs_ >= 0 || peers_->broken() ? status::failed : status::pending;
      if (round_ > 0) {
        if (here_[output].window == position::on_stage) collect(round_ - 1);
      } else if (route_ != route::one_shot && !agree()) {
        continue;  // all meet again
      }
      if (route_ == route::one_shot) return compute(), status::ready;
      if (route_ == route::ring || (round_ > 0 && begin() >= longest_)) return status::ready;
      if (!pass()) return status::failed;
      ++round_;
    }
  }

  /// A number that changes when it has come further.
  constexpr std::uint64_t moves() const { return std::uint64_t{exchanges_} << 32 | static_cast<unsigned>(next_); }
  /// How often this rank has shown its board.
  constexpr std::size_t exchanges() const { return exchanges_; }
  /// How it goes on. Final once `poll` said `ready`.
  constexpr ringlet::route route() const { return route_; }
  /// After `failed`: the rank that called something else, or -1.
  constexpr int disagreeing() const { return differs_; }

 private:
  // Contributions are added as they stand.
  static constexpr bool plain = std::is_same_v<element, typename Arithmetic::wire> && !Arithmetic::lifts;
  // An operator with a value may lift differently on each rank (`scaled_sum`): then each must do it by itself, in a
  // ring.
  static constexpr bool anyone_can_lift = !Arithmetic::lifts || std::is_empty_v<typename Arithmetic::operation>;

  // What is not inlined below is called once for kilobytes, and would otherwise stand several times in every operation.

  using enum detail::shown_memory;
  static constexpr bool needed[2] = {whole_input(What), whole_output(What)};

  constexpr void come() {
    round_ = 0;
    if (chosen(true) == route::one_shot) {
      route_ = route::one_shot;
      give();
      publish();
    } else {
      auto const otherwise = chosen(false);
      if (otherwise == route::staged) row_ = row_bytes() / sizeof(element);
      bool hidden = false;
      for (auto which : {input, output}) {
        if (!needed[which]) continue;
        here_[which] = peers_->locate(which == input ? at_.input : at_.output, at_.chunks.count * sizeof(element));
        if (here_[which].window != 0) continue;
        hidden = true;
        if (row_ != 0) here_[which].window = position::on_stage;
      }
      if (hidden && otherwise == route::one_shot) go_by_boards();
      show();
    }
  }
  constexpr void go_by_boards() { here_[input].window = here_[output].window = position::on_board; }
  // All that others need, on my board.
  [[gnu::noinline]] constexpr void give() {
    copy(peers_->template board<element>(given()), at_.input, whole_input(What) ? given() : length(peers_->rank()),
         false);
  }
  // Elements of the longest input. All name that number, so that all look in the same place of a board.
  constexpr std::size_t given() const { return whole_input(What) ? at_.chunks.count : longest_; }

  [[gnu::noinline]] constexpr ringlet::route chosen(bool in_reach) const {
    if (!anyone_can_lift) return route::ring;
    // Boards are aligned to 16; and beside positions, a short input would lie where they do.
    bool const fits = alignof(element) <= 16 && (in_reach || given() * sizeof(element) > short_board_bytes);
    std::size_t const board = fits ? peers_->board_bytes() : 0;
    // Whether an element fits a row of the stage, without the division.
    constexpr std::size_t least_row = (sizeof(element) + interference - 1) / interference * interference;
    bool const stages = peers_->stage_bytes() >= 2 * least_row * static_cast<std::size_t>(peers_->size());
    return select_.choose(given() * sizeof(element), at_.chunks.count * sizeof(element), peers_->size(), in_reach,
                          board, stages);
  }

  // The exchange before round `round_`.
  [[gnu::noinline]] constexpr void show() {
    if (here_[input].window == position::on_stage)
      for (int c = 0; c < peers_->size(); ++c)
        if (c != peers_->rank() && in_round(c) != 0)
          copy(row(peers_->rank(), c, round_), at_.input + offset(c) + begin(), in_round(c), false);
    if (here_[input].window == position::on_board) give();
    position* const board = peers_->template board<position>(2);
    for (auto which : {input, output}) board[which] = here_[which];
    publish();
  }
  constexpr void publish() {
    peers_->publish(*called_);
    ++exchanges_;
    next_ = 0;
  }

  constexpr bool all_read() {
    for (int const size = peers_->size(); next_ < size; ++next_) {
      if (!peers_->published(next_)) return false;
      if (peers_->digest(next_) != peers_->digest(peers_->rank())) return differs_ = next_, false;
    }
    return true;
  }

  // False where some have to put their input on their boards yet.
  constexpr bool agree() {
    auto const way = detail::agreed(*peers_, needed[input], needed[output]);
    if (!way) return go_by_boards(), false;
    route_ = anyone_can_lift ? *way : route::ring;
    if (route_ == route::direct) row_ = longest_;
    return true;
  }

  [[gnu::noinline]] static constexpr void copy(element* to, element const* from, std::size_t n, bool far) {
    detail::copy(this_thread{}, static_cast<element*>(nullptr), to, from, n, far);
  }

  // One shot: everything that I need of others stands on their boards.
  constexpr void compute() {
    if constexpr (What == collective::all_gather) {
      for (int r = 0; r < peers_->size(); ++r) land(on_board(r), at_.output + offset(r), length(r));
    } else if constexpr (What == collective::reduce_scatter) {
      reduce(peers_->rank(), offset(peers_->rank()), length(peers_->rank()), at_.output, false);
    } else {
      std::size_t at = 0;
      for (int c = 0; c < peers_->size(); at += length(c++)) reduce(c, at, length(c), at_.output + at, false);
    }
  }
  constexpr element const* on_board(int peer) const { return peers_->template read<element>(peer, given()); }

  // Between two exchanges: I compute my part of the round, a block at a time, and hand each block out while the cache
  // has it, or put it on my stage, for those to collect whose output I cannot reach. False when a fault ended it
  // before.
  constexpr bool pass() {
    if (!peers_->enter()) return false;
    int const me = peers_->rank();
    bool whole = true;
    element* const twin = twin_output();
    // What nobody reads again needs no cache: then a block is as long as a fault may go unnoticed.
    std::size_t const block = detail::elements_in<element>(twin != nullptr ? std::size_t{1} << 19 : 8192);
    for (std::size_t i = 0; whole && i < in_round(me); i += block) {
      std::size_t const n = in_round(me) - i < block ? in_round(me) - i : block;
      std::size_t const first = begin() + i, home = offset(me) + first;
      if constexpr (What == collective::reduce_scatter) {
        reduce(me, home, n, at_.output + first, far());
      } else {
        element const* made = at_.output + home;
        if constexpr (What == collective::all_gather) {
          land(at_.input + first, at_.output + home, n, plain && far());
          if constexpr (plain) made = at_.input + first;
        } else if (twin == nullptr) {
          reduce(me, home, n, at_.output + home, false);
        } else if constexpr (plain) {
          combine(this_thread{}, twin + home, at_.output + home, located(1 - me, input) + home, at_.input + home, n,
                  how_, true, true, true);
        }
        for (int k = twin != nullptr ? 2 : 1; k < peers_->size(); ++k) {  // not all to rank 0 first
          int const peer = (me + k) % peers_->size();
          position const where = shown(peer)[output];
          if (where.window != position::on_stage)
            copy(peers_->template at<element>(peer, where) + home, made, n, far());
        }
        if (route_ == route::staged) copy(row(me, me, round_) + i, made, n, false);
      }
      whole = !peers_->broken();  // whoever has failed waits until nobody is at its buffers
    }
    peers_->leave();
    return whole;
  }
  // Of two ranks, the other's output, when the pass that makes a value is to store it in both, past the caches.
  constexpr element* twin_output() const {
    if constexpr (What == collective::all_reduce && plain)
      if (peers_->size() == 2 && route_ == route::direct && far() && !in_place())
        return located(1 - peers_->rank(), output);
    return nullptr;
  }

  // The others' results of a round, from their stages.
  constexpr void collect(int round) {
    for (int k = 1; k < peers_->size(); ++k) {
      int const peer = (peers_->rank() + k) % peers_->size();
      if (in_round(peer, round) == 0) continue;
      copy(at_.output + offset(peer) + begin(round), row(peer, peer, round), in_round(peer, round),
           far() && !in_place());
    }
  }

  // Adds up all contributions to part of a chunk, from element `in_whole` of the whole buffer on, in the order in which
  // a ring would: rank c+1 first, rank c, the chunk's owner, last. So the choice of algorithm never changes the bits.
  [[gnu::noinline]] constexpr void reduce(int chunk, std::size_t in_whole, std::size_t count, element* result,
                                          bool far) const {
    using wire = typename Arithmetic::wire;
    constexpr std::size_t block = detail::elements_in<element>(4096);  // partial sums stay in the first-level cache
    int const size = peers_->size();
    detail::scratch<wire, block> partial;
    for (std::size_t i = 0; i < count; i += block) {
      std::size_t const n = count - i < block ? count - i : block;
      wire const* sum = nullptr;
      int peer = chunk;
      for (int k = 1; k <= size; ++k) {
        if (++peer == size) peer = 0;
        element const* const its = contribution(peer, chunk, in_whole + i);
        if constexpr (plain)
          if (k == 1 && size > 1) {  // as it is: nothing to compute
            sum = its;
            continue;
          }
        combine(this_thread{}, k < size ? partial.data() : nullptr, k < size ? nullptr : result + i, sum, its, n, how_,
                k == size, far);
        sum = partial.data();
      }
    }
  }
  constexpr void land(element const* from, element* to, std::size_t n, bool far = false) const {
    combine(this_thread{}, static_cast<typename Arithmetic::wire*>(nullptr), to,
            static_cast<typename Arithmetic::wire const*>(nullptr), from, n, how_, true, far);
  }
  // What a rank has shown of its memory.
  [[gnu::noinline]] constexpr position const* shown(int peer) const { return peers_->template read<position>(peer, 2); }
  constexpr element* located(int peer, detail::shown_memory which) const {
    return peers_->template at<element>(peer, shown(peer)[which]);
  }
  // A rank's input to that: on its board, on its stage, or where its board says.
  constexpr element const* contribution(int peer, int chunk, std::size_t in_whole) const {
    bool const boards = route_ == route::one_shot;
    // My own is sooner at hand where I have it from, as long as no results overwrite it.
    if (peer == peers_->rank() && !(boards && in_place())) return at_.input + in_whole;
    if (boards) return on_board(peer) + in_whole;
    position const where = shown(peer)[input];
    if (where.window == position::on_stage) return row(peer, chunk, round_) + (in_whole - offset(chunk) - begin());
    return peers_->template at<element>(peer, where) + in_whole;
  }
  // A stage has two halves, so that one can be filled while others still read the other, with a row for each chunk.
  // Rows lie where they lie for every operation, whatever its elements: who has ended one may be at the next while a
  // slower rank still collects from the row of results, which the next one's first input does not touch.
  constexpr std::size_t row_bytes() const { return stage_row(peers_->stage_bytes(), peers_->size()); }
  // The place of a chunk's part in a round on a rank's stage.
  [[gnu::noinline]] constexpr element* row(int peer, int chunk, int round) const {
    auto const at = static_cast<std::size_t>((round % 2) * peers_->size() + chunk);
    return peers_->template stage<element>(peer, at * row_bytes());
  }
  // Where, in each chunk, a round begins, and how many elements of a chunk are in it.
  constexpr std::size_t begin(int round) const { return static_cast<std::size_t>(round) * row_; }
  constexpr std::size_t begin() const { return begin(round_); }
  [[gnu::noinline]] constexpr std::size_t in_round(int chunk, int round) const {
    std::size_t const left = length(chunk) - (begin(round) < length(chunk) ? begin(round) : length(chunk));
    return left < row_ ? left : row_;
  }
  constexpr std::size_t in_round(int chunk) const { return in_round(chunk, round_); }
  // Then what is written has just been read, and stands in the cache.
  constexpr bool in_place() const { return What == collective::all_reduce && at_.input == at_.output; }
  // Input and output together.
  constexpr bool far() const { return 2 * at_.chunks.count * sizeof(element) >= larger_than_caches; }

  [[gnu::noinline]] constexpr std::size_t offset(int chunk) const {
    return at_.chunks.offset(static_cast<std::size_t>(chunk));
  }
  constexpr std::size_t length(int chunk) const { return at_.chunks.length(static_cast<std::size_t>(chunk)); }

  Peers* peers_;
  buffers<element> at_;
  Arithmetic how_;
  call const* called_;
  selection select_;
  std::size_t longest_;  // elements of the longest chunk
  position here_[2];
  std::size_t row_ = 0;  // elements of each chunk in a round
  int round_ = -1;       // has not come
  unsigned exchanges_ = 0;
  int next_ = 0, differs_ = -1;
  ringlet::route route_ = route::direct;
};

}  // namespace ringlet
