// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/worker.hpp"

#include <type_traits>

using ringlet::this_thread;
using ringlet::worker;

// --- the concept: an archetype, and for each requirement what lacks it ---

struct archetype {
  constexpr unsigned rank() const { return 1; }
  constexpr unsigned size() const { return 2; }
  constexpr void sync() const {}
  template <class F>
  constexpr bool leader(F f) const {
    return f();
  }
};
static_assert(worker<archetype>);

struct without_rank : archetype {
  unsigned rank() const = delete;
};
struct without_size : archetype {
  unsigned size() const = delete;
};
struct without_sync : archetype {
  void sync() const = delete;
};
struct without_leader : archetype {
  template <class F>
  bool leader(F) const = delete;
};
static_assert(!worker<without_rank> && !worker<without_size> && !worker<without_sync> && !worker<without_leader>);

struct rank_is_no_number : archetype {
  void* rank() const;
};
struct sync_is_a_question : archetype {  // whether all have come: it must return when they have
  bool sync() const;
};
struct leader_keeps_the_result : archetype {
  template <class F>
  void leader(F) const;
};
struct sync_changes_it : archetype {  // a worker is copied freely: what its calls share stands elsewhere
  void sync();
};
static_assert(!worker<rank_is_no_number> && !worker<sync_is_a_question>);
static_assert(!worker<leader_keeps_the_result> && !worker<sync_changes_it> && !worker<int>);

// --- this_thread ---

static_assert(worker<this_thread>);
static_assert(std::is_empty_v<this_thread> && std::is_trivially_copyable_v<this_thread>);
static_assert(this_thread{}.rank() == 0 && this_thread{}.size() == 1);

// Its leader is the thread itself: what was called is done, once, and the result is given as it is.
static_assert([] {
  int calls = 0;
  int& result = this_thread{}.leader([&calls]() -> int& { return ++calls; });
  return calls == 1 && &result == &calls;
}());
static_assert(std::is_void_v<decltype(this_thread{}.leader([] {}))>);
