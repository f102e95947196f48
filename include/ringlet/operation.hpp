// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "ringlet/call.hpp"
#include "ringlet/combine.hpp"
#include "ringlet/config.hpp"
#include "ringlet/link.hpp"
#include "ringlet/schedule.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/worker.hpp"

namespace ringlet {

/// How a chunk is cut for pipelining. A round moves `width * depth` elements of every chunk through all steps.
struct pipelining {
  std::size_t width;  ///< elements in a slice, at least 1; a slot must hold as many
  /// Slices under way at once, at least 1 and less than the slots of a link: with as many, every queue can be full
  /// while each rank holds the slice that the next one waits for (`prove.hpp` shows it).
  std::size_t depth;
};

/// The memory that an operation works on, and the part of it that is this lane's.
/// @tparam T the element
template <class T>
struct buffers {
  T const* input;    ///< the whole buffer, or this rank's chunk (all_gather)
  T* output;         ///< the whole buffer, or this rank's chunk (reduce_scatter); may be the input itself
  partition chunks;  ///< the whole buffer, cut into one chunk a rank
  std::size_t lane = 0;
  std::size_t lanes = 1;  ///< every chunk is cut again into one share a lane
};

/// What a rank has moved in an operation: slices sent, elements sent, how many of these straight from the caller's
/// memory, and elements received.
struct movement {
  std::size_t slices, sent, straight, received;
};

/// Bytes of a buffer that the caches of one processor will not keep, whatever is done with it.
inline constexpr std::size_t larger_than_caches = std::size_t{8} << 20;

namespace detail {
template <class S>
inline constexpr int extent_of = dynamic_size;
template <class S>
  requires requires { S::extent; }
inline constexpr int extent_of<S> = S::extent;
}  // namespace detail

/// The engine: runs a schedule over a link, a slice at a time. For each round, for each step, for each slice: take what
/// the step receives, combine it with what this rank gives, keep it, pass it on.
///
/// Every slice is one transaction that happens whole or has not begun, so the engine is a cursor (round, step, slice)
/// that can be polled, left alone, resumed and dropped at any point. It allocates nothing, locks nothing and makes no
/// system call; on a device its `worker` is a block of threads.
///
/// The first slice of a rank's first sending step travels even when it is empty, so that operations on nothing still
/// keep their place in the order and their disagreements are found. All other empty slices are skipped, on both sides
/// alike.
/// @tparam S the schedule
/// @tparam Arithmetic what one hop does to a value: `arithmetic<T, Op>`
/// @tparam Link where slices go to and come from
/// @tparam Worker who executes
template <schedule S, class Arithmetic, class Link, worker Worker = this_thread>
  requires link<Link, typename Arithmetic::wire>
class ring_operation {
 public:
  /// The element in the caller's memory.
  using element = typename Arithmetic::element;
  /// The element on the way between ranks.
  using wire = typename Arithmetic::wire;

  /// Nothing is sent before the first poll. `link` and what `called` points to must outlive the operation.
  /// @param called what to announce to the next rank and to expect of the previous one; null for nothing
  RINGLET_HD constexpr ring_operation(S s, Link& link, buffers<element> at, pipelining pipe, Arithmetic how,
                                      call const* called = nullptr, Worker w = {})
      : schedule_(s),
        link_(&link),
        at_(at),
        pipe_(pipe),
        how_(how),
        called_(called),
        worker_(w),
        far_(at.chunks.count * sizeof(element) >= larger_than_caches) {
    std::size_t const longest = partition{at.chunks.longest(), at.lanes}.longest();
    end_ = longest != 0 ? longest : 1;  // the one slice that travels even when it is empty
  }
  ring_operation& operator=(ring_operation const&) = delete;
  ring_operation(ring_operation const&) = delete;  // the neighbours may be writing to it: stay put

  /// Goes as far as it can without waiting. After `ready` or `failed` it is not to be called again.
  RINGLET_HD constexpr status poll() {
    if (!posted_) posted_ = worker_.leader(post{this});
    for (; round_ < end_; round_ += pipe_.width * pipe_.depth)
      if (!all_steps()) return stuck();
    if (worker_.leader(drained{link_})) return status::ready;
    return stuck();
  }

  /// A number that changes when it has come further.
  RINGLET_HD constexpr std::size_t moves() const {
    return (round_ * 4096 + static_cast<std::size_t>(step_)) * 4096 + slice_;  // there are fewer of each
  }
  /// The step at which it stands.
  RINGLET_HD constexpr int step_reached() const { return step_; }
  /// What has been moved so far.
  RINGLET_HD constexpr movement const& moved() const { return moved_; }
  /// After `failed`: what the previous rank called, if that was something else; otherwise null.
  RINGLET_ANY_EXEC
  RINGLET_HD constexpr call const* disagreement() const {
    if constexpr (announcing_link<Link>)
      if (differs_) return &link_->prev().announced();
    return nullptr;
  }

 private:
  // Whether values leave straight from the caller's memory: they must have one type there and on the way.
  RINGLET_HD static constexpr bool zero_copy() {
    using sender = std::remove_reference_t<decltype(std::declval<Link&>().next())>;
    return std::is_same_v<element, wire> ? zero_copy_outbound<sender, wire> : false;
  }

  // What only the worker's leader does. Named functors: a block of threads runs them on one and tells all.
  struct post {
    ring_operation* self;
    RINGLET_ANY_EXEC
    RINGLET_HD constexpr bool operator()() const {
      // Only a whole output can be landed in; offsets in placements count from its start. What the last step receives
      // is final. Who receives nothing opens nothing: nobody would wait for it.
      if constexpr (landing_link<Link, wire> && std::is_same_v<element, wire>)
        self->link_->post(whole_output(S::does) && self->receives()
                              ? slice<wire>{self->at_.output, self->at_.chunks.count}
                              : slice<wire>{});
      return true;
    }
  };
  struct drained {
    Link* link;
    RINGLET_ANY_EXEC
    RINGLET_HD constexpr bool operator()() const { return link->next().drained(); }
  };
  struct hopeless {
    ring_operation* self;
    RINGLET_ANY_EXEC
    RINGLET_HD constexpr bool operator()() const { return self->differs_ || self->link_->broken(); }
  };
  struct peek {
    ring_operation* self;
    placement where;
    RINGLET_ANY_EXEC
    RINGLET_HD constexpr slice<wire> operator()() const {
      auto& prev = self->link_->prev();
      slice<wire> const got = prev.template try_peek<wire>(where);
      if constexpr (announcing_link<Link>)
        if (got && self->called_ != nullptr && !self->received_ && !(prev.announced() == *self->called_)) {
          self->differs_ = true;
          return {};
        }
      return got;
    }
  };
  struct acquire {
    ring_operation* self;
    placement where;
    RINGLET_ANY_EXEC
    RINGLET_HD constexpr slice<wire> operator()() const {
      return self->link_->next().template try_acquire<wire>(where);
    }
  };
  struct put {
    ring_operation* self;
    element const* from;
    placement where;
    RINGLET_ANY_EXEC
    RINGLET_HD constexpr bool operator()() const {
      self->announce();
      if constexpr (zero_copy()) return self->link_->next().try_put(slice<wire const>{from, where.count}, where);
      return false;
    }
  };
  struct finish {
    ring_operation* self;
    bool commit, release;
    RINGLET_ANY_EXEC
    RINGLET_HD constexpr bool operator()() const {
      if (commit) {
        self->announce();
        self->link_->next().commit();
      }
      if (release) self->link_->prev().release();
      return true;
    }
  };

  RINGLET_HD constexpr bool receives() const { return schedule_[schedule_.steps() - 1].does.receive; }
  RINGLET_ANY_EXEC
  RINGLET_HD constexpr void announce() {
    if constexpr (announcing_link<Link>)
      if (called_ != nullptr && !sent_) link_->next().announce(*called_);
  }

  RINGLET_HD constexpr status stuck() { return worker_.leader(hopeless{this}) ? status::failed : status::pending; }

  // One round. With a size known while compiling, what each step does is known too, and its branches fold away.
  RINGLET_HD constexpr bool all_steps() {
    if constexpr (detail::extent_of<S> != dynamic_size) {
      constexpr int steps = S{0, detail::extent_of<S>}.steps();
      if (!unrolled(std::make_integer_sequence<int, steps>{})) return false;
    } else {
      for (; step_ < schedule_.steps(); ++step_)
        if (!all_slices(schedule_[step_])) return false;
    }
    step_ = 0;
    return true;
  }
  template <int... K>
  RINGLET_HD constexpr bool unrolled(std::integer_sequence<int, K...>) {
    return ((step_ > K || (all_slices(schedule_[K]) && ++step_ != 0)) && ...);
  }
  RINGLET_HD constexpr bool all_slices(step s) {
    for (; slice_ < pipe_.depth && round_ + slice_ * pipe_.width < end_; ++slice_)
      if (!advance(s)) return false;
    slice_ = 0;
    return true;
  }

  // One slice: the transaction.
  RINGLET_ANY_EXEC
  RINGLET_HD constexpr bool advance(step s) {
    auto const chunk = static_cast<std::size_t>(s.chunk);
    partition const shares{at_.chunks.length(chunk), at_.lanes};
    std::size_t const begin = round_ + slice_ * pipe_.width, length = shares.length(at_.lane);
    std::size_t const left = begin < length ? length - begin : 0, n = left < pipe_.width ? left : pipe_.width;
    bool const receive = s.does.receive && (n != 0 || !received_), send = s.does.send && (n != 0 || !sent_);
    if (n == 0 && !receive && !send) return true;

    std::size_t const in_chunk = shares.offset(at_.lane) + begin, in_whole = at_.chunks.offset(chunk) + in_chunk;
    bool const gives = s.does.reduce || !s.does.receive;  // my own contribution goes into this value
    bool const last = s.does.keep && gives;               // and it is the last one
    element const* const own = gives ? at_.input + (whole_input(S::does) ? in_whole : in_chunk) : nullptr;
    element* const result = s.does.keep ? at_.output + (whole_output(S::does) ? in_whole : in_chunk) : nullptr;
    // A value that I keep is final, so the next rank keeps it too, and it may land in its output at once.
    constexpr bool same = std::is_same_v<element, wire>;
    placement const arrives{in_whole, n, same && s.does.keep && !gives}, departs{in_whole, n, same && s.does.keep};

    slice<wire> got, out;
    if (receive && !(got = worker_.leader(peek{this, arrives}))) return false;
    if constexpr (zero_copy())
      if (send && (s.does.keep || (!s.does.receive && !Arithmetic::lifts))) {  // the value stands in my memory
        if (!combined_) {  // at most once: in place, it would add again
          combine(worker_, static_cast<wire*>(nullptr), result, static_cast<wire const*>(got.data), own, n, how_, last,
                  far_);
          worker_.sync();
          combined_ = true;
        }
        if (!worker_.leader(put{this, s.does.keep ? result : own, departs})) return false;
        combined_ = false;
        moved_.straight += n;
        return done(false, n, receive, true);
      }
    if (send && !(out = worker_.leader(acquire{this, departs}))) return false;
    combine(worker_, out.data, result, static_cast<wire const*>(got.data), own, n, how_, last, far_);
    worker_.sync();
    return done(send, n, receive, send);
  }
  RINGLET_HD constexpr bool done(bool commit, std::size_t n, bool received, bool sent) {
    worker_.leader(finish{this, commit, received});
    sent_ = sent_ || sent, received_ = received_ || received;
    moved_.slices += sent, moved_.sent += sent ? n : 0, moved_.received += received ? n : 0;
    return true;
  }

  S schedule_;
  Link* link_;
  buffers<element> at_;
  pipelining pipe_;
  Arithmetic how_;
  call const* called_;
  [[no_unique_address]] Worker worker_;
  bool far_;
  std::size_t end_ = 0;
  std::size_t round_ = 0, slice_ = 0;
  int step_ = 0;
  movement moved_{};
  bool sent_ = false, received_ = false, posted_ = false, combined_ = false, differs_ = false;
};

}  // namespace ringlet
