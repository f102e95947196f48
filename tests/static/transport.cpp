// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport.hpp"

using namespace ringlet;

struct fixed {
  fixed() = default;
  fixed(fixed const&) = delete;
  fixed& operator=(fixed const&) = delete;
};

// --- fault: it crosses between processes as bytes ---

static_assert(std::is_trivially_copyable_v<fault> && std::is_standard_layout_v<fault> && sizeof(fault) == 256);
static_assert(std::is_default_constructible_v<fault>);

// --- meeting ---

struct fewest_met : fixed {
  int rank();
  int size();
  std::uint64_t token();
  std::vector<std::string> exchange(std::string_view name, std::string const& mine, time_point until);
};
static_assert(meeting<fewest_met> && meeting<meeting_of_one>);

struct without_rank : fewest_met {
  int rank() = delete;
};
struct without_size : fewest_met {
  int size() = delete;
};
struct without_token : fewest_met {
  std::uint64_t token() = delete;
};
struct without_exchange : fewest_met {
  std::vector<std::string> exchange(std::string_view, std::string const&, time_point) = delete;
};
struct rank_is_unsigned : fewest_met {
  unsigned rank();
};
struct size_is_unsigned : fewest_met {
  unsigned size();
};
struct exchange_gives_one : fewest_met {
  std::string exchange(std::string_view, std::string const&, time_point);
};
struct token_of_half_the_bits : fewest_met {
  std::uint32_t token();
};
struct exchange_without_deadline : fewest_met {
  std::vector<std::string> exchange(std::string_view, std::string const&);
};
struct exchange_takes_mine : fewest_met {
  std::vector<std::string> exchange(std::string_view, std::string& mine, time_point);
};
static_assert(!meeting<without_rank> && !meeting<without_size> && !meeting<without_token> &&
              !meeting<without_exchange>);
static_assert(!meeting<rank_is_unsigned> && !meeting<size_is_unsigned> && !meeting<exchange_gives_one>);
static_assert(!meeting<token_of_half_the_bits> && !meeting<exchange_without_deadline> && !meeting<exchange_takes_mine>);

// --- transport ---

// The link that every transport has at least: of bytes.
struct lane_of_bytes : fixed {
  struct sender : fixed {
    template <std::same_as<std::byte> T>
    slice<T> try_acquire(placement);
    void commit();
    bool drained();
  };
  struct receiver : fixed {
    template <std::same_as<std::byte> T>
    slice<T> try_peek(placement);
    void release();
  };
  sender& next();
  receiver& prev();
  bool broken();
};

struct archetype : fixed {
  struct settings {
    std::string describe();
  };
  template <meeting M>
  archetype(M&, settings const&, time_point);
  lane_of_bytes& lane(std::size_t);
  std::size_t lanes() const;
  std::size_t slots() const;
  std::size_t slot_bytes() const;
  bool crowded() const;
  void rest();
  int lost(std::uint64_t);
  void finish(std::uint64_t);
  void tell(fault const&);
  fault const* told();
};
static_assert(transport<archetype>);

struct without_lane : archetype {
  using archetype::archetype;
  lane_of_bytes& lane(std::size_t) = delete;
};
struct without_lanes : archetype {
  using archetype::archetype;
  std::size_t lanes() const = delete;
};
struct without_slots : archetype {
  using archetype::archetype;
  std::size_t slots() const = delete;
};
struct without_slot_bytes : archetype {
  using archetype::archetype;
  std::size_t slot_bytes() const = delete;
};
struct without_crowded : archetype {
  using archetype::archetype;
  bool crowded() const = delete;
};
struct without_rest : archetype {
  using archetype::archetype;
  void rest() = delete;
};
struct without_lost : archetype {
  using archetype::archetype;
  int lost(std::uint64_t) = delete;
};
struct without_finish : archetype {
  using archetype::archetype;
  void finish(std::uint64_t) = delete;
};
struct without_tell : archetype {
  using archetype::archetype;
  void tell(fault const&) = delete;
};
struct without_told : archetype {
  using archetype::archetype;
  fault const* told() = delete;
};
template <class... X>
constexpr bool none = (!transport<X> && ...);
static_assert(none<without_lane, without_lanes, without_slots, without_slot_bytes, without_crowded>);
static_assert(none<without_rest, without_lost, without_finish, without_tell, without_told>);

struct without_constructor : archetype {};
struct without_deadline : archetype {
  without_deadline(meeting_of_one&, settings const&);
};
struct without_settings : archetype {
  using archetype::archetype;
  using settings = void;
};
struct settings_without_description : archetype {
  struct settings {};
  template <meeting M>
  settings_without_description(M&, settings const&, time_point);
};
struct settings_without_defaults : archetype {
  struct settings {
    explicit settings(int);
    std::string describe();
  };
  template <meeting M>
  settings_without_defaults(M&, settings const&, time_point);
};
struct description_is_a_view : archetype {
  struct settings {
    std::string_view describe();
  };
  template <meeting M>
  description_is_a_view(M&, settings const&, time_point);
};
static_assert(none<without_constructor, without_deadline, without_settings>);
static_assert(none<settings_without_description, settings_without_defaults, description_is_a_view>);

struct lane_is_no_link : archetype {
  using archetype::archetype;
  int& lane(std::size_t);
};
struct lanes_may_change : archetype {
  using archetype::archetype;
  std::size_t lanes();
};
struct lanes_are_int : archetype {
  using archetype::archetype;
  int lanes() const;
};
struct slots_are_int : archetype {
  using archetype::archetype;
  int slots() const;
};
struct slot_bytes_are_int : archetype {
  using archetype::archetype;
  int slot_bytes() const;
};
struct crowded_is_a_number : archetype {
  using archetype::archetype;
  int crowded() const;
};
struct finish_may_fail : archetype {
  using archetype::archetype;
  bool finish(std::uint64_t);
};
struct tell_may_fail : archetype {
  using archetype::archetype;
  bool tell(fault const&);
};
struct rest_tells : archetype {
  using archetype::archetype;
  bool rest();
};
struct lost_without_saying_whom : archetype {
  using archetype::archetype;
  bool lost(std::uint64_t);
};
struct told_by_value : archetype {  // null must be possible
  using archetype::archetype;
  fault told();
};
static_assert(none<lane_is_no_link, lanes_may_change, rest_tells, lost_without_saying_whom, told_by_value>);
static_assert(none<lanes_are_int, slots_are_int, slot_bytes_are_int, crowded_is_a_number>);
static_assert(none<finish_may_fail, tell_may_fail>);
