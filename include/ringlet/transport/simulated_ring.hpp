// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cxxabi.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringlet/error.hpp"
#include "ringlet/transport.hpp"
#include "ringlet/transport/simulated.hpp"

namespace ringlet {

namespace detail {

// Functions that take turns on one thread, each on a stack of its own.
class fibers {
 public:
  explicit fibers(std::size_t n) : all_(n) {}
  fibers(fibers const&) = delete;

  // Goes on with one, which begins with `body`, until it yields. False when it has ended.
  bool resume(std::size_t i, std::function<void()> const& body) {
    fiber& f = all_[i];
    if (f.ended) return false;
    if (f.stack == nullptr) {
      f.stack = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
      f.body = body;
      ::getcontext(&f.context);
      f.context.uc_stack.ss_sp = f.stack.get();
      f.context.uc_stack.ss_size = stack_bytes;
      f.context.uc_link = &caller_;
      ::makecontext(&f.context, enter, 0);
    }
    running_ = &f;
    now_ = this;
    turn(caller_, f.context);
    return !f.ended;
  }
  // Called by the one that runs: whether it has called this before.
  bool connected() { return std::exchange(running_->connected, true); }
  // Called by the one that runs: lets the others run.
  void yield() { turn(running_->context, caller_); }

 private:
  static constexpr std::size_t stack_bytes = std::size_t{256} << 10;  // what is not touched is not there

  struct fiber {
    ucontext_t context;
    std::unique_ptr<std::byte[]> stack;
    std::function<void()> body;  // throws nothing
    bool ended = false, connected = false;
  };

  // What is being caught belongs to a stack, not to the thread: two words of the C++ runtime.
  struct caught {
    void* exceptions;
    unsigned uncaught;
  };
  static void turn(ucontext_t& from, ucontext_t& to) {
    void* const here = abi::__cxa_get_globals();
    caught mine;
    std::memcpy(&mine, here, sizeof mine);
    ::swapcontext(&from, &to);
    std::memcpy(here, &mine, sizeof mine);
  }
  static void enter() {
    fiber& f = *now_->running_;
    f.body();
    f.ended = true;
  }

  static inline thread_local fibers* now_ = nullptr;
  std::vector<fiber> all_;
  fiber* running_ = nullptr;
  ucontext_t caller_;
};

}  // namespace detail

/// A ring on a virtual clock, as a transport: what programs run over that `simulate_program` starts, unchanged. Whoever
/// waits lets the other ranks run, all in one thread. There is no mapped memory, for that contract does not say how
/// much is read, and so not how long it takes: everything goes round the ring, but for messages (`send`, `recv`).
class simulated_ring {
 public:
  /// Where the program runs. Null anywhere else.
  struct settings {
    simulated* world = nullptr;
    detail::fibers* ranks = nullptr;
    /// Nothing must be alike: all is in one process.
    std::string describe() const { return {}; }
  };

  /// As `transport` says.
  /// @throws error(errc::unsupported) outside of `simulate_program`, and for what is split off
  template <meeting M>
  simulated_ring(M& m, settings const& s, time_point) : world_(s.world), fibers_(s.ranks), rank_(m.rank()) {
    if (world_ == nullptr) throw error(errc::unsupported, "a simulated ring is for programs in simulate_program");
    if (fibers_->connected())
      throw error(errc::unsupported,
                  "a simulated ring has no parts: simulate one of " + std::to_string(m.size()) + " ranks by itself");
    for (std::size_t l = 0; l < lanes(); ++l) world_->lane(rank_, l).only_poll();
  }
  simulated_ring(simulated_ring const&) = delete;

  /// The rank's own time: when the last of its links was done with something.
  virtual_time now() const { return world_->clock(rank_); }
  /// The rank is at something else for so many seconds, while slices travel: what a program computes between polls.
  /// @throws error(errc::invalid_argument) for what is no time from 0 to 1e6 s
  void compute(double seconds) {
    if (!(seconds >= 0 && seconds <= 1e6))
      throw error(errc::invalid_argument, detail::words("compute takes %g seconds: give 0 to 1e6", seconds));
    virtual_time const until = now() + virtual_seconds(seconds);
    world_->each_link(rank_, [&](auto& l) { l.busy_until(until); });
    fibers_->yield();
  }

  // As `transport` and `pairwise` say. What asks for a link begins to use it.
  simulated::link& lane(std::size_t i) { return at_hand(world_->lane(rank_, i)); }
  simulated::link& pair(int peer, bool to_send) { return at_hand(world_->pair(rank_, peer, to_send)); }
  std::size_t pair_slots() const { return slots(); }
  std::size_t pair_slot_bytes() const { return slot_bytes(); }
  std::size_t lanes() const { return world_->lanes(); }
  std::size_t slots() const { return world_->how().slots; }
  std::size_t slot_bytes() const { return world_->how().slot_bytes; }
  bool crowded() const { return true; }
  static constexpr unsigned yields = 0;
  void rest() {  // until the first thing comes that it has asked for, or another rank does something for it
    simulated::link* first = nullptr;
    world_->each_link(rank_, [&](auto& l) {
      if (first == nullptr || l.due() < first->due()) first = &l;
    });
    if (first->due() != virtual_time::max()) first->wake_when_due();
    fibers_->yield();
    world_->each_link(rank_, [](auto& l) { l.arrive(); });
  }
  int lost(std::uint64_t) const { return -1; }  // the world notices
  bool gone(int) const { return false; }
  void finish(std::uint64_t) {}
  void tell(fault const& f) { world_->fail(f, now()); }
  fault const* told() const { return world_->why(); }

 private:
  simulated::link& at_hand(simulated::link& l) const {
    l.not_before(now());
    return l;
  }

  simulated* world_;
  detail::fibers* fibers_;
  int rank_;
};

}  // namespace ringlet
