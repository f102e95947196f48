// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// One ring whose links differ: of each two neighbours it is asked whether they share a host. Both transports are
// connected, the near one among the ranks of each host, the far one among all, and a rank's link takes from each what
// it needs: the way to the right from one of them, the way from the left from the same or from the other.
//
//     host A: 0 -near-> 1 -far-> host B: 2 -near-> 3 -far-> 0
//
// The ring inside a host goes through its ranks in the order of all, so the next rank of all, where it is on this host,
// is also the next rank there.

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringlet/bootstrap/roster.hpp"
#include "ringlet/bootstrap/same_host.hpp"
#include "ringlet/call.hpp"
#include "ringlet/error.hpp"
#include "ringlet/link.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/transport.hpp"
#include "ringlet/transport/slot_ring.hpp"

namespace ringlet {

/// A link each of whose two ends belongs to one of two transports, which a branch decides.
/// @tparam Near, Far their links
/// @tparam Driver a link of the far transport, by which all that is far gets on
template <class Near, class Far, class Driver = Far>
class mixed_link {
  using near_sender = std::remove_reference_t<decltype(std::declval<Near&>().next())>;
  using far_sender = std::remove_reference_t<decltype(std::declval<Far&>().next())>;
  using near_receiver = std::remove_reference_t<decltype(std::declval<Near&>().prev())>;
  using far_receiver = std::remove_reference_t<decltype(std::declval<Far&>().prev())>;

 public:
  class sender {
   public:
    template <class T>
    slice<T> try_acquire(placement where) {
      auto const place = to_near_ ? near_->template try_acquire<T>(where) : far_->template try_acquire<T>(where);
      if (!place) *awaits_far_ = !to_near_;
      return place;
    }
    void announce(call const& c) {
      if (!to_near_) return far_->announce(c);
      // Ranks that share all memory announce nothing on links, since they have boards; but slots have room for it.
      if constexpr (requires(near_sender & s) { s.announce(c); })
        near_->announce(c);
      else
        static_cast<slot_ring<>::sender&>(*near_).announce(c);
    }
    void commit() { to_near_ ? near_->commit() : far_->commit(); }
    /// Of both: credits for what came from far may have to leave where the next rank is near.
    bool drained() {
      if (far_ != nullptr && !far_->drained()) return *awaits_far_ = true, false;
      return near_ == nullptr || near_->drained();
    }

   private:
    friend class mixed_link;
    near_sender* near_ = nullptr;
    far_sender* far_ = nullptr;
    bool to_near_ = false;
    bool* awaits_far_ = nullptr;
  };
  class receiver {
   public:
    template <class T>
    slice<T> try_peek(placement where) {
      auto const got = from_near_ ? near_->template try_peek<T>(where) : far_->template try_peek<T>(where);
      if (!got) *awaits_far_ = !from_near_;
      return got;
    }
    call const& announced() const { return from_near_ ? near_->announced() : far_->announced(); }
    void release() { from_near_ ? near_->release() : far_->release(); }

   private:
    friend class mixed_link;
    near_receiver* near_ = nullptr;
    far_receiver* far_ = nullptr;
    bool from_near_ = false;
    bool* awaits_far_ = nullptr;
  };

  /// @param near, far either may be null where neither end is of its kind
  /// @param awaits_far where to note whether what was last asked for in vain is far
  mixed_link(Near* near, Far* far, bool to_near, bool from_near, Driver& driver, bool& awaits_far)
      : near_(near), far_(far), driver_(&driver), awaits_far_(&awaits_far) {
    if (near != nullptr) next_.near_ = &near->next(), prev_.near_ = &near->prev();
    if (far != nullptr) next_.far_ = &far->next(), prev_.far_ = &far->prev();
    next_.to_near_ = to_near, prev_.from_near_ = from_near;
    next_.awaits_far_ = prev_.awaits_far_ = &awaits_far;
  }

  sender& next() { return next_; }
  receiver& prev() { return prev_; }
  /// Who waits for what is near must go on with what is far: credits and slices that a network has taken may still need
  /// this rank to leave, and the near rank may be waiting for the far one.
  bool broken() {
    if constexpr (requires(Driver & d) { d.drive(); })
      if (!*awaits_far_) driver_->drive();
    bool const far = far_ != nullptr && far_->broken();
    return (near_ != nullptr && near_->broken()) || far;
  }

 private:
  Near* near_;
  Far* far_;
  Driver* driver_;
  bool* awaits_far_;
  sender next_;
  receiver prev_;
};

namespace detail {

// Some ranks of a meeting, as a meeting. The others have one of their own, and all make the same exchanges, as one: so
// who fails can say so, and none waits for it.
template <meeting M>
class part_of_meeting {
 public:
  part_of_meeting(M& all, std::vector<int> ranks) : all_(&all), ranks_(std::move(ranks)) {}
  int rank() const { return static_cast<int>(std::find(ranks_.begin(), ranks_.end(), all_->rank()) - ranks_.begin()); }
  int size() const { return static_cast<int>(ranks_.size()); }
  std::uint64_t token() const { return all_->token(); }
  std::vector<std::string> exchange(std::string_view, std::string const& mine, time_point until) {
    auto const values = turn("=" + mine, until);
    std::vector<std::string> here;
    for (int rank : ranks_) here.push_back(values[static_cast<std::size_t>(rank)].substr(1));
    return here;
  }
  /// Runs `f(meeting)`, and throws what it throws at any rank, at all of them.
  template <class F>
  void run(F&& f, time_point until) {
    std::string how = "=";
    try {
      f(*this);
    } catch (error const& e) {
      if (over_) throw;
      int const peer = e.peer() < 0 ? -1 : ranks_[static_cast<std::size_t>(e.peer())];
      how = failure(e.why(), e.words() + " (as numbered among " + named(ranks_) + ")", peer).substr(0, 256);
    }
    turn(how, until);
  }

 private:
  std::vector<std::string> turn(std::string const& mine, time_point until) {
    over_ = true;  // unless it goes well
    auto values = all_->exchange("mixed/" + std::to_string(turns_++), mine, until);
    for (std::string const& value : values)
      if (value.empty() || value[0] != '=') verdict_of(value, all_->size());  // throws it
    over_ = false;
    return values;
  }

  M* all_;
  std::vector<int> ranks_;
  int turns_ = 0;
  bool over_ = false;
};

// Links between any two ranks, where both transports have such. A message goes one way.
template <class X>
concept has_pairs = requires(X& x, int peer, bool to_send) {
  x.pair(peer, to_send);
  x.pair_slots();
  x.pair_slot_bytes();
  x.gone(peer);
};
template <class Near, class Far, class Driver>
struct mixed_pairs {};
template <has_pairs Near, has_pairs Far, class Driver>
struct mixed_pairs<Near, Far, Driver> {
  using near_link = std::remove_reference_t<decltype(std::declval<Near&>().pair(0, true))>;
  using far_link = std::remove_reference_t<decltype(std::declval<Far&>().pair(0, true))>;
  struct one {
    int peer;
    bool sends;
    mixed_link<near_link, far_link, Driver> link;
  };
  std::deque<one> all;  // where each stays
  auto& add(int peer, bool sends, near_link* near, far_link* far, Driver& driver, bool& awaits_far) {
    bool const is_near = near != nullptr;
    return all.emplace_back(one{peer, sends, {near, far, is_near, is_near, driver, awaits_far}}).link;
  }
};

template <class X>
inline constexpr unsigned yields_of = 2000;
template <class X>
  requires requires { X::yields; }
inline constexpr unsigned yields_of<X> = X::yields;

}  // namespace detail

/// A ring over two transports: `mixed<shared_memory, fabric>`. Two neighbours on one host are linked by the one, others
/// by the other, link by link, wherever the ranks are: hosts may have different numbers of them, in any order. Most is
/// near when ranks that share a host follow each other.
///
/// All goes round the ring, in slots on links of either kind. A peer's end is noticed by both transports, and what one
/// is told goes to the other, too.
/// @tparam Near the transport inside hosts
/// @tparam Far the transport between hosts; connects all ranks
/// @tparam HostsOf tells which ranks share a host, as `same_host` does: a collective, called with a meeting of all
///   ranks and a time to be ready by, that gives a name for each rank's host, by rank, the same on all ranks
template <transport Near, transport Far, class HostsOf = same_host>
class mixed {
  using near_link = std::remove_reference_t<decltype(std::declval<Near&>().lane(0))>;
  using far_link = std::remove_reference_t<decltype(std::declval<Far&>().lane(0))>;

 public:
  /// What ranks must have alike, and what each chooses.
  struct settings {
    // These take the place of both transports' own, where they have such.
    std::size_t slots = 4;                            ///< slices that a queue holds
    std::size_t slot_bytes = std::size_t{256} << 10;  ///< capacity of a slot
    std::size_t lanes = 1;                            ///< parallel rings
    typename Near::settings near{};                   ///< what else the transport inside hosts is told
    typename Far::settings far{};                     ///< and the one between hosts

    std::string describe() const {
      settings const s = shaped();
      return "near: " + s.near.describe() + " far: " + s.far.describe();
    }
    /// @throws error(errc::invalid_argument) naming the value that cannot work
    void check() const {
      settings const s = shaped();
      auto const check_one = [](auto const& its) {
        if constexpr (requires { its.check(); }) its.check();
      };
      check_one(s.near), check_one(s.far);
    }
    /// With the slots and lanes where the transports look for them.
    settings shaped() const {
      settings s = *this;
      auto const shape = [this](auto& its) {
        if constexpr (requires { its.slots, its.slot_bytes, its.lanes; })
          its.slots = slots, its.slot_bytes = slot_bytes, its.lanes = lanes;
      };
      shape(s.near), shape(s.far);
      return s;
    }
  };
  /// Both ends on the ring.
  using link = mixed_link<near_link, far_link>;

  /// As `transport` says.
  /// @throws error(errc::unsupported) when the transports cannot have as many lanes
  /// @throws error whatever one of the transports throws
  template <meeting M>
  mixed(M& m, settings const& given, time_point until) : rank_(m.rank()), hosts_(HostsOf{}(m, until)) {
    int const size = m.size(), next = (rank_ + 1) % size, prev = (rank_ + size - 1) % size;
    settings const s = given.shaped();
    s.check();
    if (hosts_.size() != static_cast<std::size_t>(size))
      throw error(errc::invalid_argument,
                  detail::words("there are %zu names of hosts for %d ranks", hosts_.size(), size));
    for (int rank = 0; rank < size; ++rank)
      if (is_near(rank)) here_.push_back(rank);
    detail::part_of_meeting<M> host(m, here_);
    host.run([&](auto& part) { near_.emplace(part, s.near, until); }, until);
    far_.emplace(m, s.far, until);
    if (near_->lanes() != far_->lanes())
      throw error(errc::unsupported,
                  detail::words("links inside hosts have %zu lanes, links between hosts %zu: set lanes so that both "
                                "have as many",
                                near_->lanes(), far_->lanes()));
    for (std::size_t i = 0; i < near_->lanes(); ++i)
      links_.emplace_back(&near_->lane(i), &far_->lane(i), is_near(next), is_near(prev), far_->lane(0), awaits_far_);
  }
  mixed(mixed const&) = delete;

  /// Whether two ranks share a host, and so are linked by the near transport; one of them is this one, unless given.
  bool is_near(int rank, int other) const {
    return hosts_[static_cast<std::size_t>(rank)] == hosts_[static_cast<std::size_t>(other)];
  }
  bool is_near(int rank) const { return is_near(rank, rank_); }
  /// The transports. In the near one ranks are numbered among those of this host.
  Near& near() { return *near_; }
  Far& far() { return *far_; }

  // As `transport` says.
  link& lane(std::size_t i) { return links_[i]; }
  std::size_t lanes() const { return links_.size(); }
  std::size_t slots() const { return std::min(near_->slots(), far_->slots()); }
  std::size_t slot_bytes() const { return std::min(near_->slot_bytes(), far_->slot_bytes()); }
  bool crowded() const { return near_->crowded() || far_->crowded(); }
  static constexpr unsigned yields = detail::yields_of<Far>;
  void rest() {
    if (awaits_far_)
      far_->rest();
    else
      near_->rest();
  }
  int lost(std::uint64_t sequence) {
    int const peer = near_->lost(sequence);
    return peer >= 0 ? here_[static_cast<std::size_t>(peer)] : far_->lost(sequence);
  }
  void finish(std::uint64_t sequence) {
    near_->finish(sequence);
    far_->finish(sequence);
  }
  void tell(fault const& f) {
    // What one transport is told goes to the other: who tells may by now have ended because of it.
    fault const* const known = told();
    fault const& first = known != nullptr ? *known : f;
    near_->tell(first);
    far_->tell(first);
  }
  fault const* told() {
    fault const* first = told_.load(std::memory_order_acquire);
    if (first != nullptr) return first;
    fault const* f = near_->told();
    if (f == nullptr) f = far_->told();
    // Whoever comes later finds the same, whatever the other transport is told by then.
    return f == nullptr || told_.compare_exchange_strong(first, f) ? f : first;
  }
  void settle() {
    auto const settle_one = [](auto& x) {
      if constexpr (requires { x.settle(); }) x.settle();
    };
    settle_one(*near_), settle_one(*far_);
  }

  // As `pairwise` says, where both transports have links between any two ranks.
  auto& pair(int peer, bool to_send) requires(detail::has_pairs<Near>&& detail::has_pairs<Far>) {
    for (auto& p : pairs_.all)
      if (p.peer == peer && p.sends == to_send) return p.link;
    auto const place = std::find(here_.begin(), here_.end(), peer);
    bool const near = place != here_.end();
    return pairs_.add(peer, to_send, near ? &near_->pair(static_cast<int>(place - here_.begin()), to_send) : nullptr,
                      near ? nullptr : &far_->pair(peer, to_send), far_->lane(0), awaits_far_);
  }
  std::size_t pair_slots() const requires(detail::has_pairs<Near>&& detail::has_pairs<Far>) {
    return std::min(near_->pair_slots(), far_->pair_slots());
  }
  std::size_t pair_slot_bytes() const requires(detail::has_pairs<Near>&& detail::has_pairs<Far>) {
    return std::min(near_->pair_slot_bytes(), far_->pair_slot_bytes());
  }
  bool gone(int peer) requires(detail::has_pairs<Near>&& detail::has_pairs<Far>) {
    auto const place = std::find(here_.begin(), here_.end(), peer);
    return (place != here_.end() && near_->gone(static_cast<int>(place - here_.begin()))) || far_->gone(peer);
  }

 private:
  int rank_;
  std::vector<std::string> hosts_;  // by rank
  std::vector<int> here_;           // the ranks of this host
  std::optional<Near> near_;
  std::optional<Far> far_;
  bool awaits_far_ = false;
  std::vector<link> links_;  // by lane
  [[no_unique_address]] detail::mixed_pairs<Near, Far, far_link> pairs_;
  std::atomic<fault const*> told_ = nullptr;
};

}  // namespace ringlet
