// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// The file to copy: a whole transport in under a hundred lines of code. Slices travel as messages over local sockets,
// and the kernel is the queue. For a network, put its calls in the place of socketpair, send, recv and poll. A line
// each then brings the transport under the ready tests (tests/suite/sockets.cpp) and into ringlet-perf
// (bench/perf/transports.hpp).
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <mutex>

#include "ringlet/transport/hand_over.hpp"  // gives a file descriptor to other processes of this machine

class sockets {
  struct message {
    bool failed = false;   // carries a fault, not a slice
    ringlet::fault why;    // the fault
    ringlet::call called;  // what the sender called, with the first slice of an operation
    alignas(64) std::byte body[64 << 10];
  };
  static constexpr std::size_t header = offsetof(message, body);
  // What a call says: above 0, a message went or came, whole; below, not yet; 0, the other end is closed.
  static ssize_t said(ssize_t n) { return n < 0 && errno != EAGAIN && errno != EINTR ? 0 : n; }

 public:
  struct settings {
    std::string describe() const { return "sockets"; }  // what all ranks must have alike
  };
  struct sender {  // to the next rank; one message may stay here until the kernel takes it
    template <class T>
    ringlet::slice<T> try_acquire(ringlet::placement where) {
      if (!drained()) return {};
      bytes = header + where.count * sizeof(T);
      return {reinterpret_cast<T*>(staged.body), where.count};
    }
    void announce(ringlet::call const& c) { staged.called = c; }
    void commit() { sent = -1, drained(); }
    bool drained() {
      if (sent < 0) sent = said(::send(socket.get(), &staged, bytes, MSG_DONTWAIT | MSG_NOSIGNAL));
      return sent > 0;
    }
    ringlet::descriptor socket;
    message staged;
    std::size_t bytes = 0;
    ssize_t sent = 1;
  };
  struct receiver {  // from the previous rank; one message stays here until it is released
    template <class T>
    ringlet::slice<T> try_peek(ringlet::placement where) {
      if (got < 0) got = said(::recv(socket.get(), &staged, sizeof staged, MSG_DONTWAIT));
      if (got <= 0 || staged.failed) return {};
      return {reinterpret_cast<T*>(staged.body), where.count};
    }
    ringlet::call const& announced() const { return staged.called; }
    void release() { got = -1; }
    ringlet::descriptor socket;
    message staged;
    ssize_t got = -1;
  };

  template <ringlet::meeting M>
  sockets(M& m, settings const&, ringlet::time_point until) : rank_(m.rank()), size_(m.size()) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
      throw ringlet::error(ringlet::errc::unsupported, "no local sockets: are too many files open?");
    prev_.socket = ringlet::descriptor(ends[0]);  // the previous rank takes the other end
    auto others = ringlet::hand_over(m, "sockets/end", ringlet::descriptor(ends[1]), until);
    next_.socket = std::move(others[static_cast<std::size_t>((rank_ + 1) % size_)].file);
  }
  sockets& lane(std::size_t) { return *this; }  // there is one, and this object is its link
  sender& next() { return next_; }
  receiver& prev() { return prev_; }
  bool broken() {
    next_.drained();  // the kernel may have room by now
    if (prev_.got > 0 && prev_.staged.failed) tell(prev_.staged.why);
    return told() != nullptr;
  }
  std::size_t lanes() const { return 1; }
  std::size_t slots() const { return 2; }  // one at each end; what the kernel holds comes on top
  std::size_t slot_bytes() const { return sizeof(message::body); }
  bool crowded() const { return true; }  // every look is a system call, so give way soon
  void rest() {
    pollfd p[] = {{prev_.socket.get(), POLLIN, 0}, {next_.sent < 0 ? next_.socket.get() : -1, POLLOUT, 0}};
    ::poll(p, 2, 1);
  }
  void tell(ringlet::fault const& f) {
    std::lock_guard const alone(telling_);
    if (told() != nullptr) return;
    fault_.failed = true, fault_.why = f;
    told_ = &fault_.why;
    for (int to : {prev_.socket.get(), next_.socket.get()})  // who tell it on; where there is no room, the end says it
      ::send(to, &fault_, header, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  ringlet::fault const* told() { return told_; }
  void finish(std::uint64_t) {}  // a socket that closes says it
  int lost(std::uint64_t) {      // who is needed and gone; the next rank may also say what has happened
    message word;
    if (said(::recv(next_.socket.get(), &word, header, MSG_DONTWAIT)) > 0) tell(word.why);
    if (next_.sent == 0) return (rank_ + 1) % size_;
    return prev_.got == 0 ? (rank_ + size_ - 1) % size_ : -1;
  }

 private:
  int rank_, size_;
  sender next_;
  receiver prev_;
  std::mutex telling_;
  message fault_;
  std::atomic<ringlet::fault const*> told_ = nullptr;
};
