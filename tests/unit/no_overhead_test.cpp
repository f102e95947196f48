// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What a started operation does not do: allocate, lock, call the kernel. Counted in one thread that polls the
// operations of two ranks in turn, so that neither ever waits.

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <tuple>
#include <vector>

#include "../over_both.hpp"
#include "ringlet/all_gather.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/broadcast.hpp"
#include "ringlet/bucketer.hpp"
#include "ringlet/point_to_point.hpp"
#include "ringlet/reduce.hpp"
#include "ringlet/reduce_scatter.hpp"

using namespace tests;
using ringlet::status;

namespace {

// Counts of this thread while it is watched.
thread_local bool watched = false;
thread_local long allocations = 0, locks = 0;

template <class F>
F* original(char const* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// Not inline: g++ would see `free` meet a `new` that it cannot see through, and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (watched) ++allocations;
  if (void* const p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  if (watched) ++allocations;
  auto const a = static_cast<std::size_t>(alignment);
  if (void* const p = std::aligned_alloc(a, (bytes + a - 1) / a * a)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

// Takes the place of the C library's, and hands on to it.
extern "C" int pthread_mutex_lock(pthread_mutex_t* m) noexcept {
  static auto* const next = original<int(pthread_mutex_t*)>("pthread_mutex_lock");
  if (watched) ++locks;
  return next(m);
}

namespace {

// Two ranks of one thread. They must meet in two, for connecting waits.
template <class X>
struct both_ranks {
  explicit both_ranks(ringlet::connect_options<X> const& options) {
    std::thread other([&] { connect(1, options); });
    connect(0, options);
    other.join();
  }
  void connect(int rank, ringlet::connect_options<X> const& options) {
    comm[static_cast<std::size_t>(rank)].emplace(ringlet::connect<X>(self{rank, 2, store}, options));
  }
  ringlet::memory_store store{std::size_t{1} << 20};
  std::array<std::optional<ringlet::communicator<X>>, 2> comm;
};

// Polls both until both are ready; what it counts includes starting them.
template <class Start>
void run_in_turn(Start&& start) {
  auto&& a = start(0);
  auto&& b = start(1);
  int left = 1'000'000;
  for (; left > 0; --left) {
    status const one = a.poll(), two = b.poll();
    if (one == status::ready && two == status::ready) break;
  }
  if (left == 0) std::abort();
}

template <class X>
void all_collectives(both_ranks<X>& r, std::size_t count) {
  static std::vector<float> in[2], out[2];
  static std::vector<float> part[2];
  for (std::size_t i = 0; i < 2; ++i) {
    in[i].assign(count, 1.0F), out[i].assign(count, 0.0F);
    part[i].assign(r.comm[i]->chunks(count).length(i), 1.0F);
  }
  watched = true;
  run_in_turn([&](std::size_t i) { return ringlet::async_all_reduce(*r.comm[i], in[i], out[i]); });
  run_in_turn([&](std::size_t i) { return ringlet::async_all_reduce(*r.comm[i], out[i], ringlet::average{}); });
  run_in_turn([&](std::size_t i) { return ringlet::async_reduce_scatter(*r.comm[i], in[i], part[i]); });
  run_in_turn([&](std::size_t i) { return ringlet::async_all_gather(*r.comm[i], part[i], out[i]); });
  run_in_turn([&](std::size_t i) { return ringlet::async_broadcast(*r.comm[i], out[i], 1); });
  run_in_turn([&](std::size_t i) { return ringlet::async_reduce(*r.comm[i], in[i], out[i], 0, ringlet::maximum{}); });
  run_in_turn([&](std::size_t i) {
    return i == 0 ? ringlet::async_send(*r.comm[0], in[0], 1) : ringlet::async_recv(*r.comm[1], out[1], 0);
  });
  run_in_turn([&](std::size_t i) { return ringlet::async_barrier(*r.comm[i]); });
  watched = false;
}

// One shot, direct, in stages and in a ring, of many rounds both.
struct all_routes {
  both_ranks<ringlet::in_process> threads{{}};
  both_ranks<ringlet::shared_memory> stages{tests::with_stage<ringlet::shared_memory>(8192)};
  both_ranks<ringlet::shared_memory> slots{tests::with_slots<ringlet::shared_memory>(3, 1024, 2)};

  // Queues of messages are made by the first of them.
  all_routes() { first_messages(threads), first_messages(stages), first_messages(slots); }
  template <class X>
  static void first_messages(both_ranks<X>& r) {
    static std::vector<float> nothing;
    run_in_turn([&](std::size_t i) {
      return i == 0 ? ringlet::async_send(*r.comm[0], nothing, 1) : ringlet::async_recv(*r.comm[1], nothing, 0);
    });
  }
  void run() {
    for (std::size_t count : {0, 3, 1'000, 20'000})
      all_collectives(threads, count), all_collectives(stages, count), all_collectives(slots, count);
  }
};

[[noreturn]] void say_and_end(int, siginfo_t* info, void*) {
  char text[] = "system call 000\n";
  for (int i = 14, n = info->si_syscall; i > 11; --i, n /= 10) text[i] = static_cast<char>('0' + n % 10);
  std::ignore = ::write(2, text, sizeof text - 1);
  ::_exit(1);
}

// From here on, this thread may do nothing but write and end.
void forbid_system_calls() {
  sock_filter const code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog const program{std::size(code), const_cast<sock_filter*>(code)};
  struct sigaction action {};
  action.sa_sigaction = say_and_end;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGSYS, &action, nullptr);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    ::_exit(77);
}

}  // namespace

TEST_CASE("the counters count") {
  allocations = locks = 0;
  watched = true;
  void* const p = ::operator new(1);  // not a new-expression, which a compiler may leave out
  pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
  ::pthread_mutex_lock(&m);
  ::pthread_mutex_unlock(&m);
  watched = false;
  ::operator delete(p);
  CHECK(allocations == 1);
  CHECK(locks == 1);
}

TEST_CASE("an operation allocates nothing and locks nothing, from its start to its end") {
  all_routes all;
  allocations = locks = 0;
  all.run();
  CHECK(allocations == 0);
  CHECK(locks == 0);
}

TEST_CASE("a bucketer allocates nothing and locks nothing, from step to step") {
  both_ranks<ringlet::shared_memory> ranks({});
  std::vector<std::size_t> const counts{3, 1'000, 70'000, 5};
  using bucketer = ringlet::bucketer<float, ringlet::shared_memory>;
  std::optional<bucketer> buckets[2];
  auto make = [&](std::size_t i) {
    buckets[i].emplace(*ranks.comm[i], counts, ringlet::sum{}, ringlet::bucket_bytes{1, 1});
  };
  std::thread other([&] { make(1); });
  make(0);
  other.join();
  allocations = locks = 0;
  watched = true;
  for (int step = 0; step < 3; ++step) {
    run_in_turn([&](std::size_t i) -> bucketer& {
      for (std::size_t g = 0; g < counts.size(); ++g) buckets[i]->ready(g), buckets[i]->poll();
      return *buckets[i];
    });
    for (auto& b : buckets) b->wait();
  }
  watched = false;
  CHECK(allocations == 0);
  CHECK(locks == 0);
  for (auto& b : buckets) b.reset();
}

TEST_CASE("an operation that need not wait makes no system call") {
  // In a process of its own, for a filter stays.
  auto ends_well = [](bool call_one) {
    pid_t const child = ::fork();
    if (child == 0) {
      all_routes all;
      all.run();  // memory is there
      forbid_system_calls();
      all.run();
      if (call_one) ::syscall(SYS_getppid);
      ::_exit(0);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  int const forbidden = ends_well(true), none = ends_well(false);
  if (forbidden == 77) {
    MESSAGE("skipped: this system allows no seccomp filter");
    return;
  }
  CHECK(forbidden == 1);
  CHECK(none == 0);
}
