// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Many at once: communicators of one process, each used by a thread of its own, and jobs that know nothing of each
// other.

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "../over_both.hpp"
#include "ringlet/all_gather.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/bucketer.hpp"
#include "ringlet/progress_thread.hpp"
#include "ringlet/reduce_scatter.hpp"
#include "ringlet/split.hpp"

using namespace tests;

namespace {

// What rank `rank` gives in the `turn`-th call of user `user`: others' values in a result show.
std::uint32_t value(int user, int turn, int rank, std::size_t i) {
  return static_cast<std::uint32_t>((user + 1) * 1'000'003 + turn * 10'007 + rank * 101) +
         static_cast<std::uint32_t>(i);
}

// All collectives, in ordinary memory and in the communicator's, of sizes for all algorithms, each result checked.
template <class Comm>
void work(Comm& comm, int user, int turns) {
  auto const allocated = comm.template allocate<std::uint32_t>(30'000);
  for (int turn = 0; turn < turns; ++turn) {
    std::size_t const count = std::size_t{1} << (turn % 15);
    auto const words = "user " + std::to_string(user) + ", turn " + std::to_string(turn);
    std::vector<std::uint32_t> ordinary(count), sums(count),
        own(comm.chunks(count).length(static_cast<std::size_t>(comm.rank())));
    for (std::size_t i = 0; i < count; ++i) {
      allocated[i] = ordinary[i] = value(user, turn, comm.rank(), i);
      for (int r = 0; r < comm.size(); ++r) sums[i] += value(user, turn, r, i);
    }
    std::span<std::uint32_t> const shared(allocated.data(), count);
    auto first = ringlet::async_all_reduce(comm, ordinary);
    auto second = ringlet::async_all_reduce(comm, shared);
    second.wait();
    first.wait();
    expect(ordinary == sums, "all_reduce of " + words);
    expect(std::equal(sums.begin(), sums.end(), shared.begin()), "all_reduce in allocated memory of " + words);
    for (std::size_t i = 0; i < count; ++i) ordinary[i] = value(user, turn, comm.rank(), i);
    ringlet::reduce_scatter(comm, ordinary, own);
    ringlet::all_gather(comm, own, ordinary);
    expect(ordinary == sums, "reduce_scatter and all_gather of " + words);
    if (turn % 5 == 0) ringlet::barrier(comm);
  }
}

// Runs f(0), ..., f(n - 1) in a thread each; throws what one of them throws.
template <class F>
void at_once(int n, F&& f) {
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(n));
  std::vector<std::thread> users;
  for (int user = 0; user < n; ++user)
    users.emplace_back([&, user] {
      try {
        f(user);
      } catch (...) {
        thrown[static_cast<std::size_t>(user)] = std::current_exception();
      }
    });
  for (auto& u : users) u.join();
  for (auto const& e : thrown)
    if (e != nullptr) std::rethrow_exception(e);
}

// A communicator for each of several users, of the same ranks.
template <class Comm>
auto communicators(Comm& comm, int users) {
  std::vector<decltype(comm.split(0))> all;
  for (int user = 0; user < users; ++user) all.push_back(comm.split(0, user % 2 == 0 ? comm.rank() : -comm.rank()));
  return all;
}

// Runs f(0), ..., f(n - 1) in a process each, and gives what they return.
template <class F>
std::vector<int> jobs_at_once(int n, F&& f) {
  std::vector<pid_t> children;
  for (int job = 0; job < n; ++job) {
    children.push_back(::fork());
    if (children.back() == 0) ::_exit(f(job));
  }
  std::vector<int> ends;
  for (pid_t const child : children) {
    int how = -1;
    ::waitpid(child, &how, 0);
    ends.push_back(WIFEXITED(how) ? WEXITSTATUS(how) : -1);
  }
  return ends;
}

}  // namespace

OVER_BOTH("threads of a process use a communicator each, at the same time") {
  CHECK(on<Ranks>(3, [](auto& comm) {
          auto all = communicators(comm, 4);
          at_once(4, [&](int user) { work(*all[static_cast<std::size_t>(user)], user, 60); });
          ringlet::barrier(comm);
        }) == 0);
}

OVER_BOTH("threads of a process split and end communicators at the same time") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto all = communicators(comm, 3);
          at_once(3, [&](int user) {
            for (int turn = 0; turn < 10; ++turn) {
              auto part = all[static_cast<std::size_t>(user)]->split(0);
              work(*part, user, 3);
            }
          });
        }) == 0);
}

OVER_BOTH("a communicator that is aborted leaves the others of its process alone") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto all = communicators(comm, 3);
          at_once(3, [&](int user) {
            auto& mine = *all[static_cast<std::size_t>(user)];
            if (user != 1) return work(mine, user, 60);
            auto const e = error_of([&] {
              for (int turn = 0;; ++turn) {
                if (turn == 20 && mine.rank() == 1) mine.abort("had enough");
                ringlet::barrier(mine);
              }
            });
            expect(e, errc::aborted, "had enough");
          });
        }) == 0);
}

OVER_BOTH("bucketers of a process, each with a thread that polls, go on at the same time") {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto all = communicators(comm, 3);
          at_once(3, [&](int user) {
            auto& mine = *all[static_cast<std::size_t>(user)];
            std::vector<std::size_t> const counts(10, 3'000);
            auto buckets = ringlet::make_bucketer<std::uint32_t>(mine, counts, ringlet::sum{}, {1, 30'000});
            ringlet::progress_thread progress(mine, buckets);
            for (int step = 0; step < 20; ++step) {
              progress.start();
              for (std::size_t g = 0; g < counts.size(); ++g) {
                auto const gradient = buckets.gradient(g);
                for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = value(user, step, mine.rank(), i + g);
                buckets.ready(g);
              }
              progress.wait();
              for (std::size_t g = 0; g < counts.size(); ++g)
                for (std::size_t i = 0; i < counts[g]; ++i)
                  expect(buckets.gradient(g)[i] == value(user, step, 0, i + g) + value(user, step, 1, i + g), "a sum");
            }
          });
        }) == 0);
}

OVER_BOTH("jobs run at the same time") {
  auto const job = [](int number) { return on<Ranks>(2 + number % 2, [&](auto& comm) { work(comm, number, 60); }); };
  for (int const end : jobs_at_once(4, job)) CHECK(end == 0);
}

TEST_CASE("a job whose rank is killed ends, and no other does") {
  auto const job = [](int number) {
    return on<tests::processes<ringlet::shared_memory>>(2, [&](auto& comm) {
      work(comm, number, 30);
      if (number == 1 && comm.rank() == 1) ::raise(SIGKILL);
      work(comm, number, 30);
    });
  };
  CHECK(jobs_at_once(3, job) == std::vector{0, 1, 0});
}
