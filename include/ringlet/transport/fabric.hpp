// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Rings over libfabric, whose headers this one needs when compiling and whose library when running. What goes over the
// wire is said in fabric_wire.hpp, for messages between any two ranks in fabric_pairs.hpp. Why it cannot lock:
//
// Nothing here waits within a call. When the provider cannot take something now, what was committed stays in its slot,
// a credit stays owed, a note stays due, and every later poll tries again, after it has taken in what has arrived; so
// ranks that are full in both directions empty each other. Slices wait for credits alone, and credits for nothing but
// the provider. A rank that waits polls everything, and one that is away has nothing that others wait for: its slices
// have ended, and the credits that may still be on their way serve what it has not begun either.
//
// Who leaves says so, and then polls until its next rank has taken everything or has left, too; only then does its
// endpoint go. Providers that do not tell of a peer's end, and those that crash when polled after it, are why all ranks
// keep TCP connections to each other (fabric_peers.hpp): the first who sees one end tells all, and nobody polls again.

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ringlet/chords.hpp"
#include "ringlet/clock.hpp"
#include "ringlet/detail/fabric_choice.hpp"
#include "ringlet/error.hpp"
#include "ringlet/transport.hpp"
#include "ringlet/transport/fabric_endpoint.hpp"
#include "ringlet/transport/fabric_library.hpp"
#include "ringlet/transport/fabric_link.hpp"
#include "ringlet/transport/fabric_pairs.hpp"
#include "ringlet/transport/fabric_peers.hpp"
#include "ringlet/transport/fabric_wire.hpp"

namespace ringlet {

/// Ranks on any hosts that a provider of libfabric connects: RDMA networks, TCP.
class fabric {
 public:
  /// What ranks must have alike, and what each chooses for its host.
  struct settings : fabric_shape {
    /// Which provider, network interface and domain to use, each as `name_filter` says. Without a word, the best
    /// provider that all ranks have, and an interface that leads to other hosts. Known bad providers are used when
    /// named exactly ("=sockets").
    std::string provider, interface, domain;
    /// libfabric's name or path; empty when it is linked into the program.
    std::string library = "libfabric.so.1";
    /// How long a rank that leaves waits for others to take what it has sent. Then that is lost.
    std::chrono::milliseconds linger{60'000};

    std::string describe() const {
      return "slots=" + std::to_string(slots) + " slot_bytes=" + std::to_string(slot_bytes) +
             " lanes=" + std::to_string(lanes) + " chord_bytes=" + std::to_string(chord_bytes);
    }
    /// @throws error(errc::invalid_argument) naming the value that cannot work
    void check() const {
      auto refuse = [](char const* what, std::size_t given, char const* expected) {
        throw error(errc::invalid_argument, detail::words("%s is %zu, expected %s", what, given, expected));
      };
      if (slots < 2 || slots > 64) refuse("slots", slots, "2 to 64: with one, a ring locks");
      if (slot_bytes == 0 || slot_bytes % interference != 0 || slot_bytes > std::size_t{1} << 30)
        refuse("slot_bytes", slot_bytes, "a multiple of 128 up to 1 GiB");
      if (lanes < 1 || lanes > 16) refuse("lanes", lanes, "1 to 16");
    }
  };

  /// As `transport` says.
  /// @throws error(errc::unsupported) with a list of what there is, when no provider fits
  /// @throws error(errc::mismatch) when no provider fits on all ranks
  /// @throws error(errc::bootstrap) naming a rank that cannot be reached
  template <meeting M>
  fabric(M& m, settings const& s, time_point until)
      : linger_(s.linger),
        found_(detail::choose_fabric(m, s, until)),
        endpoint_(*found_.library, *found_.info, completions(s, m.size())),
        traffic_(s, endpoint_, stopped_),
        peers_(m.rank(), m.size(), *found_.own()) {
    join(m, until);
    crowded_ = detail::outnumber_processors(m, until);
  }
  fabric(fabric const&) = delete;

  // As `transport` says.
  fabric_link& lane(std::size_t i) { return *traffic_.links[i]; }
  std::size_t lanes() const { return traffic_.shape.lanes; }
  std::size_t slots() const { return traffic_.shape.slots; }
  std::size_t slot_bytes() const { return traffic_.shape.slot_bytes; }
  bool crowded() const { return crowded_; }
  static constexpr unsigned yields = 0;
  void rest() {
    if (traffic_.over())
      listen(nap);
    else if (traffic_.waiting)
      ::sched_yield();
    else if (endpoint_.wakes() >= 0)
      sleep();
    else if (endpoint_.blocks())
      traffic_.progress(nap);
    else
      std::this_thread::sleep_for(short_nap);
  }
  int lost(std::uint64_t sequence) {
    listen();
    for (int peer = 0; peer < peers_.size(); ++peer)
      if (peers_.left(peer) ? peers_.finished(peer) < sequence : peers_.ended(peer)) return peer;
    // A provider that has failed because of a peer's end often knows it before its end is seen: that says more.
    auto const& failure = endpoint_.failed();
    if (!failure) return -1;
    auto const now = std::chrono::steady_clock::now();
    if (!failed_at_) failed_at_ = now;
    if (now - *failed_at_ > std::chrono::milliseconds(500))
      tell(fault(errc::peer_lost, failure->peer, "rank %d cannot go on: %s", peers_.rank(), failure->words.c_str()));
    return -1;
  }
  void finish(std::uint64_t sequence) {
    auto const end = std::chrono::steady_clock::now() + linger_;
    auto const poll_while = [&](auto awaited) {
      while (awaited() && !traffic_.over() && std::chrono::steady_clock::now() < end) traffic_.progress(nap), listen();
    };
    auto const ended = [this](int peer) { return peers_.ended(peer); };
    auto const away = [this](int peer) { return peers_.left(peer) || peers_.ended(peer); };
    // First what this rank owes, acknowledgements and credits: a peer does not wait for those of a rank that has left,
    // and if it went before they came, they would fail, and with them this rank's endpoint, with all that others still
    // wait for.
    poll_while([&] { return (!traffic_.paid() && !ended(traffic_.prev.rank)) || pairs_.wait(false, ended); });
    fabric_peers::letter l;
    l.what = fabric_peers::letter::kind::left, l.finished = sequence;
    peers_.tell_all(l);
    poll_while([&] { return (!traffic_.acknowledged() && !away(traffic_.next.rank)) || pairs_.wait(true, away); });
  }
  void tell(fault const& f) {
    note(f);
    {
      std::lock_guard const alone(telling_);
      if (std::exchange(spread_, true)) return;
    }
    fabric_peers::letter l;
    l.what = fabric_peers::letter::kind::fault, l.why = *told();
    peers_.tell_all(l);
  }
  fault const* told() const { return told_.load(std::memory_order_acquire); }
  /// As `pairwise` says. Who leaves stays until its messages have been taken, for `linger` at most.
  /// @throws error(errc::unsupported) where the provider has no tagged messages
  fabric_pair_link& pair(int peer, bool to_send) { return pairs_.link(peer, to_send); }
  std::size_t pair_slots() const { return traffic_.shape.slots; }
  std::size_t pair_slot_bytes() const { return pairs_.slot_bytes(); }
  /// As `chorded` says. There are none where the provider has no tagged messages.
  fabric_chord& chord(int k) { return pairs_.chord(k); }
  int chords() const { return pairs_.chords(); }
  std::size_t chord_bytes() const { return pairs_.chord_bytes(); }
  bool gone(int peer) {
    listen();
    return peers_.ended(peer);
  }
  /// After a fault: no peer can reach this rank's memory any more.
  void settle() { endpoint_.close(); }

  /// Memory of the user's own, registered with the provider as long as this stands: values leave straight from it and
  /// final ones land in it, without copies. It must go before the memory and before the communicator, and not while an
  /// operation uses the memory. Registering costs much more than an operation: keep it.
  class registered {
   public:
    /// @param x `communicator::transport()`
    /// @param range contiguous: a vector, a span
    /// @throws error(errc::out_of_memory) in the provider's words
    template <class Range>
    registered(fabric& x, Range& range) : x_(&x) {
      auto* const data = reinterpret_cast<std::byte*>(std::data(range));
      std::size_t const bytes = std::size(range) * sizeof(*std::data(range));
      x.check_usable();
      if (bytes != 0) data_ = x.endpoint_.enroll(data, bytes, true).data;
    }
    registered(registered&& other) noexcept : x_(other.x_), data_(std::exchange(other.data_, nullptr)) {}
    registered& operator=(registered&& other) noexcept {
      std::swap(x_, other.x_);
      std::swap(data_, other.data_);
      return *this;
    }
    ~registered() {
      if (data_ != nullptr) x_->endpoint_.dismiss(data_);
    }

   private:
    fabric* x_;
    std::byte* data_ = nullptr;
  };

  /// Registered memory for `allocate`; a collective.
  /// @param positions_of tells all ranks how this rank fared, and gives how all did: an exchange
  template <class Exchange>
  std::byte* open_window(std::size_t bytes, Exchange&& positions_of) {
    struct part {
      bool had;
    };
    check_usable();
    detail::fabric_memory memory;
    std::string reason;
    try {
      memory = detail::fabric_allocate(bytes);
      endpoint_.enroll(memory.get(), bytes, true);
    } catch (error const& e) {  // the others must hear of it, for they are about to wait
      reason = e.words();
    }
    struct guard {
      fabric* x;
      std::byte* data;
      ~guard() {
        if (data != nullptr) x->endpoint_.dismiss(data);
      }
    } enrolled{this, reason.empty() ? memory.get() : nullptr};
    std::vector<part> const parts = positions_of(part{reason.empty()});
    for (std::size_t r = 0; r < parts.size(); ++r)
      if (!parts[r].had)
        throw error(errc::out_of_memory,
                    !reason.empty()
                        ? reason
                        : detail::words("rank %zu could not register %zu bytes: see what it says", r, bytes),
                    static_cast<int>(r));
    enrolled.data = nullptr;
    windows_.push_back(std::move(memory));
    return windows_.back().get();
  }
  /// Gives it back. Not a collective; only between operations.
  void close_window(std::byte* memory) {
    endpoint_.dismiss(memory);
    std::erase_if(windows_, [&](auto const& w) { return w.get() == memory; });
  }

  /// Which provider was chosen, and where.
  std::string const& provider() const { return endpoint_.provider(); }
  std::string const& interface() const { return found_.interface; }
  /// 2: remote writes. 1: messages, since remote writes with CQ data do not work here, or not well.
  int level() const { return traffic_.level; }
  fabric_statistics const& statistics() const { return traffic_.statistics; }

 private:
  static constexpr std::chrono::milliseconds nap{1};
  static constexpr std::chrono::microseconds short_nap{50};
  static std::size_t completions(fabric_shape const& s, int ranks) {
    return s.lanes * (6 * s.slots + 16) + 32 + 4 * s.slots * static_cast<std::size_t>(ranks) +
           16 * static_cast<std::size_t>(chords_among(ranks));
  }

  // What ranks must know of each other.
  struct identity {
    std::uint64_t inbox, key;
    std::uint32_t control_bytes, has_tags;
  };
  template <meeting M>
  void join(M& m, time_point until) {
    int const rank = m.rank(), size = m.size();
    auto const all = detail::fabric_exchange(m, "fabric/address", until, [&] {
      std::size_t const largest = traffic_.shape.slot_bytes + fabric_shape::header;
      if (endpoint_.largest_message() < largest)
        throw error(
            errc::unsupported,
            detail::words("provider %s takes messages of %zu bytes at most, a slot has %zu: set slot_bytes lower",
                          provider().c_str(), endpoint_.largest_message(), largest));
      identity const mine{traffic_.inbox->base, traffic_.inbox->key, static_cast<std::uint32_t>(peers_.own().size()),
                          endpoint_.has_tags()};
      return std::string(reinterpret_cast<char const*>(&mine), sizeof mine) + peers_.own() + endpoint_.address();
    });
    std::vector<std::string> doors, addresses;
    bool chords = traffic_.shape.chord_bytes != 0;
    for (std::string const& text : all) {
      identity its{};
      std::memcpy(&its, text.data(), std::min(text.size(), sizeof its));
      chords = chords && its.has_tags != 0;
      doors.push_back(text.substr(std::min(text.size(), sizeof its), its.control_bytes));
      addresses.push_back(text.substr(std::min(text.size(), sizeof its + its.control_bytes)));
    }
    auto const meet = [&](int peer) {
      identity its{};
      std::memcpy(&its, all[static_cast<std::size_t>(peer)].data(), sizeof its);
      fabric_traffic::neighbour n{peer, FI_ADDR_UNSPEC, its.inbox, its.key};
      if (size > 1) n.at = endpoint_.insert(addresses[static_cast<std::size_t>(peer)]);
      return n;
    };
    traffic_.next = meet((rank + 1) % size);
    traffic_.prev = size == 2 ? traffic_.next : meet((rank + size - 1) % size);
    peers_.connect(doors, m.token(), until);
    traffic_.open();
    pairs_.open(traffic_, peers_, std::move(addresses));
    if (chords) pairs_.open_chords(chords_among(size));
    if (size > 1) greet(until);
  }

  // Finds out what the providers can do, and lets those that connect when they are first used do so. It polls until all
  // ranks are through: a neighbour's connection may need this rank's help.
  void greet(time_point until) {
    fabric_ticket &next = greetings_[0], &prev = greetings_[1];
    std::vector<std::uint32_t> levels(static_cast<std::size_t>(peers_.size()));
    std::vector<bool> ready(levels.size());
    std::uint32_t& mine = levels[static_cast<std::size_t>(peers_.rank())];
    constexpr std::uint32_t neither = 3;
    using posted = fabric_traffic::posted;
    auto const hello = [&](fabric_traffic::neighbour const& to, fabric_ticket& t) {
      auto const word = fabric_word::of(fabric_word::kind::hello, 0, static_cast<std::uint64_t>(traffic_.level));
      return traffic_.post_word(to, traffic_.outbox->data, 8, traffic_.shape.sink(), word, t) == posted::yes;
    };
    auto const say = [&](fabric_peers::letter::kind what) {
      fabric_peers::letter l;
      l.what = what, l.level = mine;
      peers_.tell_all(l);
    };
    auto const await = [&](auto&& done) {
      while (!done()) {
        ::sched_yield();
        traffic_.progress();
        peers_.listen([&](int peer, fabric_peers::letter const& l) {
          auto const i = static_cast<std::size_t>(peer);
          if (l.what == fabric_peers::letter::kind::level) levels[i] = l.level;
          if (l.what == fabric_peers::letter::kind::ready) ready[i] = true;
          hear(peer, l);
        });
        if (!done()) check_greeting(ready, until);  // who has ended may have said before what was waited for
      }
    };

    posted tried = posted::later;
    await([&] { return (tried = tried == posted::later ? try_level_2(next) : tried) != posted::later; });
    mine = tried == posted::yes ? 2 : endpoint_.has_tags() ? 1 : neither;
    say(fabric_peers::letter::kind::level);
    await([&] { return std::find(levels.begin(), levels.end(), 0u) == levels.end(); });
    if (auto const r = std::find(levels.begin(), levels.end(), neither); r != levels.end())
      throw error(errc::unsupported,
                  detail::words("rank %td: provider %s has neither writes with CQ data nor tagged messages",
                                r - levels.begin(), provider().c_str()),
                  static_cast<int>(r - levels.begin()));
    bool to_next = true, to_prev = false;
    if (std::find(levels.begin(), levels.end(), 1u) != levels.end()) {
      await([&] { return !next.out; });
      traffic_.fall_back();
      to_next = false;
    }
    await([&] {
      to_next = to_next || hello(traffic_.next, next);
      to_prev = to_prev || hello(traffic_.prev, prev);
      return to_next && to_prev && !next.out && !prev.out && traffic_.hellos[traffic_.level] >= 2 && !traffic_.waiting;
    });
    say(fabric_peers::letter::kind::ready);
    ready[static_cast<std::size_t>(peers_.rank())] = true;
    await([&] { return std::find(ready.begin(), ready.end(), false) == ready.end(); });
  }
  void check_greeting(std::vector<bool> const& ready, time_point until) const {
    if (auto const& f = endpoint_.failed()) throw error(errc::unsupported, "connecting failed: " + f->words, f->peer);
    for (int peer = 0; peer < peers_.size(); ++peer)
      if (peers_.ended(peer) && !peers_.left(peer))
        throw error(errc::peer_lost, detail::words("rank %d ended while ranks connected", peer), peer);
    if (std::chrono::steady_clock::now() < until) return;
    int late = 0;
    while (late + 1 < peers_.size() && (late == peers_.rank() || ready[static_cast<std::size_t>(late)])) ++late;
    throw error(errc::timed_out,
                detail::words("rank %d could not connect in time over provider %s, nor could rank %d", peers_.rank(),
                              provider().c_str(), late),
                late);
  }
  fabric_traffic::posted try_level_2(fabric_ticket& t) {
    fabric_endpoint::message m;
    m.add(traffic_.outbox->data, 8, traffic_.outbox->descriptor);
    t.peer = traffic_.next.rank;
    return endpoint_.try_write(traffic_.next.target(traffic_.shape.sink()), m,
                               fabric_word::of(fabric_word::kind::hello, 0, 2), t);
  }

  // Until the endpoint or a peer has news.
  void sleep() {
    if (!endpoint_.idle()) return;
    pollfd p[] = {{endpoint_.wakes(), POLLIN, 0}, {peers_.news(), POLLIN, 0}};
    if (::poll(p, 2, static_cast<int>(nap.count())) > 0 && p[1].revents != 0) listen();
  }
  // Keeps the first fault that it is told.
  void note(fault const& f) {
    std::lock_guard const alone(telling_);
    if (told() != nullptr) return;
    fault_ = f;
    told_.store(&fault_, std::memory_order_release);
    stopped_.store(true, std::memory_order_release);
  }
  void listen(std::chrono::milliseconds wait = {}) {
    peers_.listen([this](int peer, fabric_peers::letter const& l) { hear(peer, l); }, wait);
  }
  void hear(int peer, fabric_peers::letter const& l) {
    if (l.what == fabric_peers::letter::kind::fault) note(l.why);
    if (l.what == fabric_peers::letter::kind::sends && !traffic_.over()) try {
        pairs_.link(peer, false);
      } catch (error const& e) {  // what was sent would be in the way of all else
        tell(fault(e.why(), peers_.rank(), "rank %d: %s", peers_.rank(), e.words().c_str()));
      }
  }
  void check_usable() const {
    if (traffic_.over()) throw error(errc::not_connected, "this communicator has failed and is finished");
  }

  std::chrono::milliseconds linger_;
  std::atomic<bool> stopped_ = false;
  detail::fabric_choice found_;
  fabric_endpoint endpoint_;
  std::deque<detail::fabric_memory> windows_;
  fabric_ticket greetings_[2] = {{.what = fabric_ticket::use::word}, {.what = fabric_ticket::use::word}};
  fabric_pairs pairs_;  // whose memory stays until the endpoint is closed
  fabric_traffic traffic_;
  fabric_peers peers_;
  bool crowded_ = false, spread_ = false;
  std::optional<std::chrono::steady_clock::time_point> failed_at_;
  std::mutex telling_;
  fault fault_;
  std::atomic<fault const*> told_ = nullptr;
};

}  // namespace ringlet
