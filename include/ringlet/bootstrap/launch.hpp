// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <type_traits>
#include <vector>

#include "ringlet/bootstrap/memory_store.hpp"
#include "ringlet/bootstrap/roster.hpp"
#include "ringlet/clock.hpp"

namespace ringlet {

/// What `launch` makes ranks of.
enum class ranks_as {
  processes,  ///< forked from the caller
  threads,    ///< of the caller's process
};

/// How `launch` runs ranks.
struct launch_options {
  ranks_as as = ranks_as::processes;
  /// Bind each rank to one of the processors that the caller may use: rank r to the r-th, or, when there are more ranks
  /// than processors, as many neighbours of the ring to each, so that most of what they exchange stays in its caches.
  bool pin = false;
  /// How long the others may go on after a rank has failed. Then processes are ended; threads cannot be, so
  /// their own deadlines must do.
  std::chrono::milliseconds grace{90'000};
};

/// Runs `f` on `n` ranks of this machine, with no launcher, and waits for them.
///
/// A rank fails when its `f` throws, returns a number other than 0, or is killed. Standard error says which
/// rank it was and why: `rank 2: words`.
///
/// As processes: the caller is no rank. It may have no other threads when it calls, for a fork copies only the
/// calling thread, and locks that others hold stay locked for ever. Ranks die with the caller, however it ends.
/// They end without running destructors of static objects or functions given to `atexit`; what they wrote to `stdio`
/// is written out (what a stream of C++ that is not synchronised with it holds is not). The caller must not have told
/// the system to ignore SIGCHLD.
///
/// As threads: all ranks run the one `f`, at the same time.
///
/// @param n how many ranks, at least 1
/// @param f called as `f(bootstrap<memory_store>)`; returns nothing, or an int that is 0 when all is well
/// @return 0 when every rank was well, else 1: what main() may return
/// @throws error(errc::invalid_argument) when n is below 1
/// @throws error(errc::out_of_memory) when processes or the store cannot be made; no rank is left then
template <std::invocable<bootstrap<memory_store>> F>
int launch(int n, F&& f, launch_options options = {});

namespace detail {

// The exit code of a rank that has said why it failed. Unlikely, so that a rank that calls exit() is told apart.
inline constexpr int said_why = 113;

// In one call, so that lines of several ranks do not mix.
inline void complain(int rank, std::string const& words) {
  std::fputs(("rank " + std::to_string(rank) + ": " + words + '\n').c_str(), stderr);
}

// Binds the calling thread. Not to be able to is no failure: it is only slower.
inline void pin_to(int rank, int size, cpu_set_t const& allowed) {
  int const count = CPU_COUNT(&allowed) > 0 ? CPU_COUNT(&allowed) : 1;
  int skip = size <= count ? rank : static_cast<int>(static_cast<long>(rank) * count / size);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || skip-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

// Runs one rank to its end; true when it was well.
template <class F>
bool run_rank(F& f, bootstrap<memory_store> self) noexcept {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<F&, bootstrap<memory_store>>>) {
      f(self);
      return true;
    } else {
      int const code = f(self);
      if (code != 0) complain(self.rank, "returned " + std::to_string(code));
      return code == 0;
    }
  } catch (std::exception const& e) {
    complain(self.rank, e.what());
  } catch (...) {
    complain(self.rank, "threw something that is no std::exception");
  }
  return false;
}

// The processes of a launch. Whatever happens, none outlives this object.
class processes {
 public:
  processes() = default;
  processes(processes const&) = delete;
  processes& operator=(processes const&) = delete;
  ~processes() {
    end_all();
    for (child& c : children_) reap(c);
  }

  // `body` runs in the new process and returns its exit code.
  template <class Body>
  void start(Body&& body) {
    child c;
    children_.reserve(children_.size() + 1);
    pid_t const parent = ::getpid();
    std::fflush(nullptr);  // or both processes would write what waits in the buffers
    c.pid = ::fork();
    if (c.pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);  // the parent ended before that could tell
      int const code = body();
      std::fflush(nullptr);
      ::_exit(code);
    }
    if (c.pid < 0) refuse("forking", children_.size(), errno);
    c.fd = static_cast<int>(::syscall(SYS_pidfd_open, c.pid, 0));
    int const reason = errno;
    children_.push_back(c);
    if (c.fd < 0) refuse("watching (pidfd_open)", children_.size() - 1, reason);
  }

  // Waits for all; once one has failed, for `grace` more. True when all were well.
  bool wait(std::chrono::milliseconds grace) {
    using namespace std::chrono;
    bool well = true, late = false;
    steady_clock::time_point end{};
    for (std::size_t left = children_.size(); left > 0;) {
      std::vector<pollfd> watched;
      for (child const& c : children_) watched.push_back({c.fd, POLLIN, 0});  // poll skips what is -1
      bool const limited = !well && !late;
      ::poll(watched.data(), watched.size(), limited ? milliseconds_until(end) : -1);
      for (std::size_t rank = 0; rank < children_.size(); ++rank) {
        if (children_[rank].fd < 0 || (watched[rank].revents & POLLIN) == 0) continue;
        --left;
        if (was_well(static_cast<int>(rank), reap(children_[rank]), late)) continue;
        if (well) end = steady_clock::now() + grace;
        well = false;
      }
      if (!well && !late && steady_clock::now() >= end) {
        late = true;
        end_all();
      }
    }
    return well;
  }

 private:
  struct child {
    pid_t pid = -1;
    int fd = -1;  // the process as a file that is readable once it has ended; -1 when reaped
  };

  [[noreturn]] static void refuse(char const* what, std::size_t rank, int reason) {
    throw error(errc::out_of_memory, std::string(what) + " the process of rank " + std::to_string(rank) +
                                         " failed: " + std::strerror(reason));
  }

  void end_all() {
    for (child const& c : children_) {
      if (c.pid > 0) ::kill(c.pid, SIGKILL);
    }
  }

  static int reap(child& c) {
    int status = -1;
    if (c.pid > 0) {
      while (::waitpid(c.pid, &status, 0) < 0 && errno == EINTR) continue;
    }
    if (c.fd >= 0) ::close(c.fd);
    c = {};
    return status;
  }

  // True when the status is that of a rank that was well. Says why not, unless the rank itself has done so.
  static bool was_well(int rank, int status, bool late) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    std::string words = "its end is unknown: is SIGCHLD ignored?";
    if (WIFEXITED(status)) {
      if (WEXITSTATUS(status) == said_why) return false;
      words = "exited with code " + std::to_string(WEXITSTATUS(status));
    } else if (WIFSIGNALED(status)) {
      int const signal = WTERMSIG(status);
      words = "killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
      if (late && signal == SIGKILL) words += ", by launch: it went on for too long after another rank had failed";
    }
    complain(rank, words);
    return false;
  }

  std::vector<child> children_;
};

// The threads of a launch, which this object waits for. (Those of POSIX: <thread> takes an eighth of the time in which
// a program that includes all of ringlet compiles.)
class threads {
 public:
  threads() = default;
  threads(threads const&) = delete;
  threads& operator=(threads const&) = delete;
  ~threads() {
    for (pthread_t const thread : started_) ::pthread_join(thread, nullptr);
  }

  template <class Body>
  void start(Body body) {
    started_.reserve(started_.size() + 1);
    pthread_t thread;
    auto const run = [](void* p) -> void* {
      Body const own = *static_cast<Body*>(p);
      delete static_cast<Body*>(p);
      own();
      return nullptr;
    };
    auto* const given = new Body(body);
    if (int const reason = ::pthread_create(&thread, nullptr, run, given); reason != 0) {
      delete given;
      throw error(errc::out_of_memory, "starting the thread of rank " + std::to_string(started_.size()) +
                                           " failed: " + std::strerror(reason));
    }
    started_.push_back(thread);
  }

 private:
  std::vector<pthread_t> started_;
};

}  // namespace detail

template <std::invocable<bootstrap<memory_store>> F>
int launch(int n, F&& f, launch_options options) {
  if (n < 1) throw error(errc::invalid_argument, "launch of " + std::to_string(n) + " ranks: at least 1 is needed");
  memory_store store;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ::sched_getaffinity(0, sizeof allowed, &allowed);
  auto const run = [&](int rank) {
    if (options.pin) detail::pin_to(rank, n, allowed);
    return detail::run_rank(f, bootstrap<memory_store>{rank, n, store});
  };

  if (options.as == ranks_as::processes) {
    detail::processes ranks;
    for (int rank = 0; rank < n; ++rank) ranks.start([&] { return run(rank) ? 0 : detail::said_why; });
    return ranks.wait(options.grace) ? 0 : 1;
  }
  std::atomic<bool> well = true;
  {
    detail::threads ranks;
    for (int rank = 0; rank < n; ++rank) {
      ranks.start([&, rank] {
        if (!run(rank)) well = false;
      });
    }
  }
  return well ? 0 : 1;
}

}  // namespace ringlet
