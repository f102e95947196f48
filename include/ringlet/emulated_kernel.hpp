// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <sched.h>
#include <time.h>
#include <ucontext.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringlet/kernel.hpp"

// Kernel bodies without a device. Threads test what memory ordering allows, fibres what a block of many threads does
// with tails and strides, in any order of its threads and always in the same one.

namespace ringlet {

namespace detail {

// For whoever has looked in vain k times: others need the processor.
inline void give_way(unsigned k) {
  timespec const a_moment{0, 20000};
  if (k < 64)
    ::sched_yield();
  else
    ::nanosleep(&a_moment, nullptr);
}

// What the leader says, by way of memory that all members reach.
template <class W, class F>
std::invoke_result_t<F&> told(W const& worker, unsigned char* place, F& f) {
  using result = std::invoke_result_t<F&>;
  static_assert(std::is_trivially_copyable_v<result> && sizeof(result) <= this_block::longest_result);
  if (worker.rank() == 0) {
    result const r = f();
    std::memcpy(place, &r, sizeof r);
  }
  worker.sync();
  result r;
  std::memcpy(&r, place, sizeof r);
  worker.sync();  // before the next leader speaks
  return r;
}

// A block of host threads.
struct thread_block {
  unsigned size;
  std::atomic<unsigned> missing{size}, meeting{0};
  unsigned char place[this_block::longest_result];
  alignas(16) unsigned char common[common_bytes];

  explicit thread_block(unsigned n) : size(n) {}
};

class block_thread {
 public:
  block_thread(thread_block& block, unsigned rank) : block_(&block), rank_(rank) {}
  unsigned rank() const { return rank_; }
  unsigned size() const { return block_->size; }
  void sync() const {
    unsigned const now = block_->meeting.load(std::memory_order_relaxed);
    if (block_->missing.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      block_->missing.store(block_->size, std::memory_order_relaxed);
      block_->meeting.store(now + 1, std::memory_order_release);
      block_->meeting.notify_all();
    } else {
      block_->meeting.wait(now, std::memory_order_acquire);
    }
  }
  void pause(unsigned k) const { give_way(k); }
  void* common() const { return block_->common; }
  template <class F>
  std::invoke_result_t<F&> leader(F f) const {
    return told(*this, block_->place, f);
  }

 private:
  thread_block* block_;
  unsigned rank_;
};

// All members of all blocks as fibres of one thread, which run in an order that changes from turn to turn.
class fibres {
 public:
  struct block {
    unsigned size, missing = size, meeting = 0;
    unsigned char place[this_block::longest_result];
    alignas(16) unsigned char common[common_bytes];

    explicit block(unsigned n) : size(n) {}
  };

  fibres(unsigned blocks, unsigned threads, std::uint64_t seed) : seed_(seed + 0x9e3779b97f4a7c15u) {
    blocks_.assign(blocks, block(threads));
    for (unsigned b = 0; b < blocks; ++b)
      for (unsigned rank = 0; rank < threads; ++rank) all_.push_back({std::make_unique<fibre>(), &blocks_[b], b, rank});
  }
  fibres(fibres const&) = delete;

  // Runs `f(block, number of the block, rank)` on every fibre.
  template <class F>
  void run(F const& f) {
    start_ = [](void const* what, member& m) { (*static_cast<F const*>(what))(*m.of, m.number, m.rank); };
    what_ = &f;
    fibres* const before = std::exchange(here_, this);
    for (member& m : all_) {
      ::getcontext(&m.self->context);
      m.self->context.uc_stack.ss_sp = m.self->stack;
      m.self->context.uc_stack.ss_size = sizeof m.self->stack;
      m.self->context.uc_link = &home_;
      ::makecontext(&m.self->context, enter, 0);
    }
    for (unsigned vain = 0; !all_.empty();) {
      stirred_ = false;
      shuffle();
      for (std::size_t i = 0; i < all_.size(); ++i) {
        now_ = &all_[i];
        ::swapcontext(&home_, &now_->self->context);
      }
      std::erase_if(all_, [](member const& m) { return m.self->ended; });
      vain = stirred_ ? 0 : vain + 1;
      if (vain != 0) give_way(vain);  // all wait for other ranks
    }
    here_ = before;
  }

  // To be called by a fibre: lets the others run.
  static void yield() { ::swapcontext(&here_->now_->self->context, &here_->home_); }
  static void stir() { here_->stirred_ = true; }

 private:
  struct fibre {
    ucontext_t context;
    bool ended = false;
    alignas(64) std::byte stack[std::size_t{64} << 10];
    fibre() {}  // leaves the stack as it is
  };
  struct member {
    std::unique_ptr<fibre> self;
    block* of;
    unsigned number, rank;
  };

  static void enter() {
    fibres& all = *here_;
    fibre& self = *all.now_->self;
    all.start_(all.what_, *all.now_);
    self.ended = true;
    stir();
  }
  void shuffle() {
    for (std::size_t i = all_.size(); i > 1; --i) {
      seed_ ^= seed_ << 13, seed_ ^= seed_ >> 7, seed_ ^= seed_ << 17;  // Marsaglia, "Xorshift RNGs", 2003
      std::swap(all_[i - 1], all_[seed_ % i]);
    }
  }

  static inline thread_local fibres* here_ = nullptr;
  std::vector<block> blocks_;
  std::vector<member> all_;
  std::uint64_t seed_;
  ucontext_t home_;
  member* now_ = nullptr;
  bool stirred_ = false;
  void (*start_)(void const*, member&) = nullptr;
  void const* what_ = nullptr;
};

class block_fibre {
 public:
  block_fibre(fibres::block& block, unsigned rank) : block_(&block), rank_(rank) {}
  unsigned rank() const { return rank_; }
  unsigned size() const { return block_->size; }
  void sync() const {
    unsigned const now = block_->meeting;
    if (--block_->missing == 0) {
      block_->missing = block_->size;
      ++block_->meeting;
      fibres::stir();
    }
    while (block_->meeting == now) fibres::yield();
  }
  void pause(unsigned) const { fibres::yield(); }
  void* common() const { return block_->common; }
  template <class F>
  std::invoke_result_t<F&> leader(F f) const {
    return told(*this, block_->place, f);
  }

 private:
  fibres::block* block_;
  unsigned rank_;
};

static_assert(kernel_worker<block_thread> && kernel_worker<block_fibre>);

}  // namespace detail

/// Runs a body as a device would, with a host thread for each thread of each block, and returns when it has ended.
/// @param blocks how many
/// @param threads of each block; few will do
template <kernel_body Body>
void run_on_threads(unsigned blocks, unsigned threads, Body const& body) {
  std::vector<std::unique_ptr<detail::thread_block>> all;
  std::vector<std::thread> running;
  for (unsigned b = 0; b < blocks; ++b) {
    all.push_back(std::make_unique<detail::thread_block>(threads));
    for (unsigned rank = 0; rank < threads; ++rank)
      running.emplace_back(
          [&body, &block = *all.back(), rank, b, blocks] { body(detail::block_thread(block, rank), b, blocks); });
  }
  for (auto& thread : running) thread.join();
}

/// Runs a body as a device would, with all threads of all blocks as fibres of the calling thread: hundreds of them cost
/// little but memory. They take turns when they wait for each other, in an order that depends on the seed alone.
/// @param blocks how many
/// @param threads of each block
template <kernel_body Body>
void run_on_fibres(unsigned blocks, unsigned threads, std::uint64_t seed, Body const& body) {
  detail::fibres all(blocks, threads, seed);
  auto const one = [&](detail::fibres::block& block, unsigned number, unsigned rank) {
    body(detail::block_fibre(block, rank), number, blocks);
  };
  all.run(one);
}

}  // namespace ringlet
