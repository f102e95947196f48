// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "ringlet/clock.hpp"
#include "ringlet/transport/fabric_endpoint.hpp"
#include "ringlet/transport/fabric_wire.hpp"

namespace ringlet {

class fabric_link;

/// What the links of a rank have in common: the endpoint, the memory that neighbours write to, and the progress of
/// everything.
class fabric_traffic {
 public:
  using posted = fabric_endpoint::posted;

  /// One of the two neighbours on the ring.
  struct neighbour {
    int rank = -1;
    fi_addr_t at = FI_ADDR_UNSPEC;
    std::uint64_t inbox = 0, key = 0;

    fabric_endpoint::target target(std::size_t offset) const { return {at, inbox + offset, key}; }
  };

  /// @param stopped true once a fault is known: then everything is left alone
  fabric_traffic(fabric_shape const& s, fabric_endpoint& e, std::atomic<bool> const& stopped);
  fabric_traffic(fabric_traffic const&) = delete;
  ~fabric_traffic();

  /// Makes the links, once the neighbours are known.
  void open();
  /// To level 1, since the ranks' providers cannot do what level 2 needs.
  void fall_back();
  /// Drives the endpoint once: takes what has arrived, and posts again what could not be posted before.
  /// @param wait how long to sleep for something to happen, where the provider can
  void progress(std::chrono::milliseconds wait = {});
  /// Sends a few bytes of the outbox to a neighbour, with a word.
  posted post_word(neighbour const& to, std::byte* from, std::size_t bytes, std::size_t offset, std::uint32_t word,
                   fabric_ticket& t) {
    fabric_endpoint::message m;
    m.add(from, bytes, outbox->descriptor);
    t.peer = to.rank;
    return level == 2 ? endpoint->write_few(to.target(offset), m, word, t)
                      : endpoint->send_few(to.at, m, fabric_word::tag(word), t);
  }
  bool stopped() const { return stopped_->load(std::memory_order_acquire); }
  /// Whether nothing may be done any more.
  bool over() const { return stopped() || endpoint->failed().has_value(); }
  /// Whether the next rank has taken everything that was sent to it.
  bool acknowledged() const;
  /// Whether nothing is on its way to the previous rank.
  bool paid() const;

  fabric_shape const shape;
  fabric_endpoint* const endpoint;
  int level = 2;  ///< 2: slices are written to slots and announced; 1: they are sent to receives that wait at the slots
  neighbour next, prev;
  fabric_endpoint::region const *inbox, *outbox;
  std::vector<std::unique_ptr<fabric_link>> links;  ///< by lane
  bool waiting = false;                             ///< something is to be posted again
  int hellos[3] = {};                               ///< how many have come, by level
  fabric_statistics statistics;
  void (*flush_pairs)(fabric_traffic&) = nullptr;  ///< also what goes between any two ranks (fabric_pairs.hpp)
  void* pairs = nullptr;

 private:
  friend class fabric_endpoint;
  // What the endpoint's poll calls.
  void ended(fabric_ticket& t);
  void arrived(std::uint64_t word, fabric_ticket* t);
  void expect(fabric_ticket::use what, std::size_t count);
  void refill(fabric_ticket& t);

  // Words that may be on their way to here at once.
  std::size_t words() const { return shape.lanes * (shape.slots + 2) + 8; }

  std::atomic<bool> const* stopped_;
  detail::fabric_memory inbox_memory_, outbox_memory_;
  std::deque<fabric_ticket> receives_;  // for words, or for CQ data to use up
};

inline void fabric_traffic::expect(fabric_ticket::use what, std::size_t count) {
  receives_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    receives_.emplace_back();
    receives_.back().what = what;
    receives_.back().slot = static_cast<int>(i);
  }
  waiting = true;  // progress posts them, and the slots' own
}
inline void fabric_traffic::refill(fabric_ticket& t) {
  std::byte* const letter =
      inbox_memory_.get() + shape.bytes() + static_cast<std::size_t>(t.slot) * fabric_shape::note_bytes;
  posted const p = t.what == fabric_ticket::use::filler
                       ? endpoint->receive_nothing(t)
                       : endpoint->receive(*inbox, letter, fabric_shape::note_bytes,
                                           fabric_word::tag(fabric_word::of(fabric_word::kind::credit, 0, 0)),
                                           fabric_word::open_words, t);
  waiting |= p != posted::yes;
}

}  // namespace ringlet
