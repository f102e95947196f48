// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/link.hpp"

using namespace ringlet;

// Archetypes offer what a contract asks for and nothing else. A near miss is one with a single thing amiss: that it is
// none shows that the thing is asked for.

struct fixed {  // they are never copied or moved
  fixed() = default;
  fixed(fixed const&) = delete;
  fixed& operator=(fixed const&) = delete;
};

// --- outbound ---

struct sender : fixed {
  template <class T>
  slice<T> try_acquire(placement);
  void commit();
  bool drained();
};
static_assert(outbound<sender, float> && outbound<sender&, std::byte>);

struct without_acquire : sender {
  template <class T>
  slice<T> try_acquire(placement) = delete;
};
struct without_commit : sender {
  void commit() = delete;
};
struct without_drained : sender {
  bool drained() = delete;
};
static_assert(!outbound<without_acquire, float> && !outbound<without_commit, float> &&
              !outbound<without_drained, float>);

struct acquires_to_read : sender {
  template <class T>
  slice<T const> try_acquire(placement);
};
struct commit_may_fail : sender {
  bool commit();
};
struct drains_by_waiting : sender {
  void drained();
};
struct sends_bytes_only : sender {
  template <std::same_as<std::byte>>
  slice<std::byte> try_acquire(placement);
};
static_assert(!outbound<acquires_to_read, float> && !outbound<commit_may_fail, float>);
static_assert(!outbound<drains_by_waiting, float>);
static_assert(outbound<sends_bytes_only, std::byte> && !outbound<sends_bytes_only, float>);

// --- inbound ---

struct receiver : fixed {
  template <class T>
  slice<T> try_peek(placement);
  void release();
};
static_assert(inbound<receiver, float> && inbound<receiver&, std::byte>);

struct without_peek : receiver {
  template <class T>
  slice<T> try_peek(placement) = delete;
};
struct without_release : receiver {
  void release() = delete;
};
struct peeks_at_a_pointer : receiver {
  template <class T>
  T* try_peek(placement);
};
struct release_may_fail : receiver {
  bool release();
};
static_assert(!inbound<without_peek, float> && !inbound<without_release, float>);
static_assert(!inbound<peeks_at_a_pointer, float> && !inbound<release_may_fail, float>);

static_assert(!outbound<receiver, float> && !inbound<sender, float>);

// --- link ---

template <class Sender, class Receiver>
struct ends : fixed {
  Sender& next();
  Receiver& prev();
  bool broken();
};
using archetype = ends<sender, receiver>;
static_assert(link<archetype, float> && link<archetype, std::byte>);

struct without_next : archetype {
  sender& next() = delete;
};
struct without_prev : archetype {
  receiver& prev() = delete;
};
struct without_broken : archetype {
  bool broken() = delete;
};
struct breaks_in_silence : archetype {
  void broken();
};
static_assert(!link<without_next, float> && !link<without_prev, float>);
static_assert(!link<without_broken, float> && !link<breaks_in_silence, float>);
static_assert(!link<ends<without_commit, receiver>, float> && !link<ends<sender, without_release>, float>);
static_assert(!link<ends<receiver, sender>, float>);
static_assert(link<ends<sends_bytes_only, receiver>, std::byte> && !link<ends<sends_bytes_only, receiver>, float>);

// --- zero_copy_outbound ---

struct zero_copy_sender : sender {
  bool try_put(slice<float const>, placement);
};
struct puts_for_certain : sender {
  void try_put(slice<float const>, placement);
};
struct puts_only : without_acquire {
  bool try_put(slice<float const>, placement);
};
static_assert(zero_copy_outbound<zero_copy_sender, float> && !zero_copy_outbound<zero_copy_sender, int>);
static_assert(!zero_copy_outbound<sender, float>);
static_assert(!zero_copy_outbound<puts_for_certain, float> && !zero_copy_outbound<puts_only, float>);

// --- landing_link ---

struct landing : archetype {
  void post(slice<float>);
};
struct post_may_fail : archetype {
  bool post(slice<float>);
};
struct lands_on_one_end : without_next {
  void post(slice<float>);
};
static_assert(landing_link<landing, float> && !landing_link<landing, int>);
static_assert(!landing_link<archetype, float>);
static_assert(!landing_link<post_may_fail, float> && !landing_link<lands_on_one_end, float>);

// --- announcing_link ---

struct announcing_sender : sender {
  void announce(call const&);
};
struct announcing_receiver : receiver {
  call const& announced();
};
struct announces_and_asks : sender {
  bool announce(call const&);
};
struct changes_the_call : sender {
  void announce(call&);
};
struct announces_a_number : receiver {
  std::uint64_t announced();
};
static_assert(announcing_link<ends<announcing_sender, announcing_receiver>>);
static_assert(!announcing_link<archetype>);
static_assert(!announcing_link<ends<sender, announcing_receiver>>);
static_assert(!announcing_link<ends<announcing_sender, receiver>>);
static_assert(!announcing_link<ends<announces_and_asks, announcing_receiver>>);
static_assert(!announcing_link<ends<changes_the_call, announcing_receiver>>);
static_assert(!announcing_link<ends<announcing_sender, announces_a_number>>);
