// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Ranks that a test starts to kill them.

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "../ranks.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/point_to_point.hpp"

namespace tests {

using clock_type = std::chrono::steady_clock;

// What the ranks tell the test, in memory that they share.
struct report {
  std::atomic<int> connected{0}, rounds{0};
  struct {
    std::atomic<std::int64_t> ended_at{0};  // nanoseconds of the steady clock
    std::atomic<int> why{0}, peer{-1};
    char words[256] = {};
  } rank[8];
};

inline std::int64_t now() { return clock_type::now().time_since_epoch().count(); }

// Ranks in processes that the test starts itself, to kill them by their numbers.
// @tparam X the transport
template <class X>
class victims {
 public:
  // Every rank runs f(communicator) until an error of ringlet's ends it. First it calls enter(rank), if that is given.
  template <class F>
  victims(int size, ringlet::connect_options<X> const& options, F&& f, void (*enter)(int rank) = nullptr) {
    void* const memory = ::mmap(nullptr, sizeof(report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    told = new (memory) report;
    for (int rank = 0; rank < size; ++rank) {
      pid_t const pid = ::fork();
      if (pid == 0) {
        if (enter != nullptr) enter(rank);
        ::_exit(run({rank, size, store_}, options, f));
      }
      pids.push_back(pid);
    }
  }
  victims(victims const&) = delete;
  ~victims() {
    for (pid_t& pid : pids)
      if (pid > 0) ::kill(pid, SIGKILL), ::waitpid(pid, nullptr, 0);
    ::munmap(told, sizeof(report));
  }
  void all_connected() const {
    while (told->connected < static_cast<int>(pids.size())) std::this_thread::sleep_for(100us);
  }
  // Wait for the end of a rank; true when it ended by an error of ringlet's before the limit, or came to its end in
  // peace.
  bool ends(int rank, std::chrono::milliseconds limit) { return status(rank, limit) == failed; }
  bool finishes(int rank, std::chrono::milliseconds limit) { return status(rank, limit) == finished; }

  std::vector<pid_t> pids;
  report* told;

 private:
  static constexpr int failed = 0, finished = 1, other = 2;

  int status(int rank, std::chrono::milliseconds limit) {
    pid_t& pid = pids[static_cast<std::size_t>(rank)];
    int status = -1;
    for (auto const until = clock_type::now() + limit; ::waitpid(pid, &status, WNOHANG) == 0;) {
      if (clock_type::now() > until) return other;
      std::this_thread::sleep_for(500us);
    }
    pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : other;
  }
  template <class F>
  int run(self who, ringlet::connect_options<X> const& options, F& f) {
    auto& mine = told->rank[who.rank];
    try {
      auto comm = ringlet::connect<X>(who, options);
      ++told->connected;
      f(comm);
      return finished;
    } catch (ringlet::error const& e) {
      mine.ended_at = now();
      mine.why = e.code().value();
      mine.peer = e.peer();
      std::snprintf(mine.words, sizeof mine.words, "%s", e.what());
      return failed;
    } catch (std::exception const& e) {
      std::snprintf(mine.words, sizeof mine.words, "%s", e.what());
      return other;
    }
  }
  ringlet::memory_store store_;
};

template <class Comm>
void all_reduce_for_ever(Comm& comm, std::size_t count, bool in_window, report& told) {
  auto const window = comm.template allocate<float>(in_window ? count : 0);
  std::vector<float> ordinary(in_window ? 0 : count);
  for (;;) {
    if (in_window)
      ringlet::all_reduce(comm, window);
    else
      ringlet::all_reduce(comm, ordinary);
    if (comm.rank() == 0) ++told.rounds;
  }
}

// Each rank sends to the right and receives from the left.
template <class Comm>
void messages_for_ever(Comm& comm, std::size_t count, report& told) {
  std::vector<float> mine(count), its(count);
  for (;;) {
    auto sent = ringlet::async_send(comm, mine, (comm.rank() + 1) % comm.size());
    ringlet::recv(comm, its, (comm.rank() + comm.size() - 1) % comm.size());
    sent.wait();
    if (comm.rank() == 0) ++told.rounds;
  }
}

// Kills a rank; every other one must end within the limit, by an error that names it.
// @return nanoseconds until the slowest had its error
template <class X>
std::int64_t kill_and_hear(victims<X>& ranks, int victim, std::chrono::milliseconds limit) {
  std::int64_t const killed_at = now();
  std::int64_t slowest = 0;
  ::kill(ranks.pids[static_cast<std::size_t>(victim)], SIGKILL);
  for (int rank = 0; rank < static_cast<int>(ranks.pids.size()); ++rank) {
    if (rank == victim) continue;
    CAPTURE(rank);
    REQUIRE(ranks.ends(rank, limit));
    auto const& its = ranks.told->rank[rank];
    INFO(std::string(its.words));
    CHECK(its.why == static_cast<int>(ringlet::errc::peer_lost));
    CHECK(its.peer == victim);
    slowest = std::max<std::int64_t>(slowest, its.ended_at - killed_at);
  }
  return slowest;
}

// RINGLET_SEED repeats a run that failed, RINGLET_KILLS makes it longer or shorter.
inline unsigned number_from(char const* name, unsigned otherwise) {
  char const* const text = std::getenv(name);
  return text != nullptr ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : otherwise;
}

}  // namespace tests
