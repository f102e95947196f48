// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "ringlet/call.hpp"
#include "ringlet/link.hpp"
#include "ringlet/slice.hpp"
#include "ringlet/transport/simulated_settings.hpp"

// Parts of a simulated ring: ends of links, what is to happen, and what ranks may share.

namespace ringlet::detail {

// Ends of a link that does the work: as `outbound` and `inbound` say.
template <class Link>
class simulated_sender {
 public:
  explicit simulated_sender(Link& l) : self_(&l) {}
  template <class T>
  slice<T> try_acquire(placement where) {
    return self_->template try_acquire<T>(where);
  }
  void commit() { self_->commit(); }
  void announce(call const& c) { self_->announces_ = c; }
  bool drained() const { return true; }

 private:
  Link* self_;
};
template <class Link>
class simulated_receiver {
 public:
  explicit simulated_receiver(Link& l) : self_(&l) {}
  template <class T>
  slice<T> try_peek(placement where) {
    return self_->template try_peek<T>(where);
  }
  call const& announced() const { return self_->announced(); }
  void release() { self_->release(); }

 private:
  Link* self_;
};

// What happens to links, in the order of time; of what happens at one time, what was planned first.
template <class Link>
class simulated_agenda {
 public:
  enum class doing : std::uint8_t { poll, depart };
  struct event {
    virtual_time at;
    std::uint64_t order;
    Link* whose;
    doing what;
    friend bool operator>(event const& a, event const& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; }
  };
  bool empty() const { return all_.empty(); }
  void plan(virtual_time at, Link& whose, doing what) { all_.push({at, planned_++, &whose, what}); }
  event take() {
    event const next = all_.top();
    all_.pop();
    return next;
  }

 private:
  std::priority_queue<event, std::vector<event>, std::greater<>> all_;
  std::uint64_t planned_ = 0;
};

// A wire at work, and its own source of chance (splitmix64: Steele, Lea and Flood, 2014).
struct wire_at_work {
  simulated_wire is;
  double beta;  // picoseconds
  virtual_time alpha, resend_after, saves, free{};
  int users = 0;
  std::uint64_t state;

  wire_at_work(simulated_wire const& w, std::uint64_t seed)
      : is(w),
        beta(w.beta * 1e12),
        alpha(virtual_seconds(w.alpha)),
        resend_after(virtual_seconds(w.resend_after)),
        saves(virtual_picoseconds(w.burst * beta)),
        state(seed) {}
  double chance() {
    std::uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }
};

// Processors, to be asked in the order of time. None: each link has one to itself.
class shared_processors {
 public:
  explicit shared_processors(std::size_t n) : free_({}, std::vector<virtual_time>(n)) {}
  bool none() const { return free_.empty(); }
  // When one takes on what could begin then.
  virtual_time begins(virtual_time at) const { return none() ? at : std::max(at, free_.top()); }
  // It is taken on. When it is done.
  virtual_time ends(virtual_time at, virtual_time work) {
    at = begins(at) + work;
    if (!none()) free_.pop(), free_.push(at);
    return at;
  }

 private:
  std::priority_queue<virtual_time, std::vector<virtual_time>, std::greater<>> free_;  // when each is
};

}  // namespace ringlet::detail
