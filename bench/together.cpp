// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Many at once: what several jobs of this machine, or several communicators of the same processes, get through
// together, against one alone. Each does the same number of all-reduces; what counts is the time from the first start
// to the last end. Medians of rounds, in each of which everything is measured once.

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ringlet/all_reduce.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/bootstrap/launch.hpp"
#include "ringlet/split.hpp"
#include "ringlet/transport/shared_memory.hpp"
#include "timing.hpp"

namespace {

using ringlet::shared_memory;
using communicator = ringlet::communicator<shared_memory>;

constexpr int most = 16;  // at once

struct shared_state {
  std::atomic<int> here;          ///< of those that are to begin together
  double begin[most], end[most];  ///< seconds of the system's clock
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// All-reduces one after the other, when as many users as given have come.
void use(communicator& comm, int user, int users, std::size_t bytes, int calls, shared_state& s) {
  auto const buffer = comm.allocate<float>(bytes / sizeof(float));
  for (int i = 0; i < 3; ++i) ringlet::all_reduce(comm, buffer);
  if (comm.rank() == 0) {
    for (++s.here; s.here.load() < users;) ::sched_yield();
    s.begin[user] = now();
  }
  ringlet::barrier(comm);
  for (int i = 0; i < calls; ++i) ringlet::all_reduce(comm, buffer);
  if (comm.rank() == 0) s.end[user] = now();
}

// A job is a process that launches ranks of its own.
void as_jobs(int ranks, int users, std::size_t bytes, int calls, bool pin, shared_state& s) {
  std::vector<pid_t> jobs;
  for (int user = 0; user < users; ++user) {
    jobs.push_back(::fork());
    if (jobs.back() != 0) continue;
    auto const job = [&](auto who) {
      auto comm = ringlet::connect<shared_memory>(who);
      use(comm, user, users, bytes, calls, s);
    };
    ::_exit(ringlet::launch(ranks, job, {.pin = pin}));
  }
  bool well = true;
  for (pid_t const job : jobs) {
    int how = -1;
    well = ::waitpid(job, &how, 0) == job && how == 0 && well;
  }
  if (!well) throw std::runtime_error("a job has failed");
}

// The same ranks with a communicator and a thread for each user.
void as_communicators(int ranks, int users, std::size_t bytes, int calls, bool pin, shared_state& s) {
  auto const rank = [&](auto who) {
    auto comm = ringlet::connect<shared_memory>(who);
    std::vector<communicator> parts;
    for (int user = 0; user < users; ++user) parts.push_back(*comm.split(0));
    std::vector<std::thread> threads;
    for (int user = 0; user < users; ++user)
      threads.emplace_back([&, user] { use(parts[static_cast<std::size_t>(user)], user, users, bytes, calls, s); });
    for (auto& t : threads) t.join();
  };
  if (ringlet::launch(ranks, rank, {.pin = pin}) != 0) throw std::runtime_error("a rank has failed");
}

}  // namespace

int main(int argc, char** argv) {
  int ranks = 2, users = 2, rounds = 7;
  double seconds = 0.1;
  bool pin = true;
  std::string json;
  CLI::App app(
      "Measures what several users of this machine get through at once. Exit status: 1 below nine tenths of one.",
      "together");
  app.add_option("--ranks", ranks, "Processes of each job")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--users", users, "Jobs, or communicators, at once")
      ->check(CLI::Range(2, most))
      ->capture_default_str();
  app.add_option("--seconds", seconds, "What each measurement takes, about")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--pin,!--no-pin", pin, "Bind ranks to processors: yes unless told not to");
  app.add_option("-n,--rounds", rounds, "Medians of so many")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--json", json, "File for the results as JSON");
  CLI11_PARSE(app, argc, argv);

  shared_with_children<shared_state> s;
  auto const makespan = [&](auto run, int many, std::size_t bytes, int calls) {
    s->here = 0;
    std::fflush(stdout);  // a job would print it again
    run(ranks, many, bytes, calls, pin, *s);
    return *std::max_element(s->end, s->end + many) - *std::min_element(s->begin, s->begin + many);
  };
  bool kept = true;
  auto results = nlohmann::ordered_json::array();
  std::printf("%d users of %d ranks each; throughput of all / of one; medians of %d rounds\n", users, ranks, rounds);
  std::printf("%10s  %12s  %8s  %14s\n", "bytes", "one (us)", "jobs", "communicators");
  for (std::size_t const bytes : {std::size_t{8}, std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{16} << 20}) {
    int const calls = std::max(4, static_cast<int>(seconds / (0.4e-6 + static_cast<double>(bytes) / 6e9)));
    std::vector<double> one, jobs, communicators;
    for (int round = 0; round < rounds; ++round) {
      one.push_back(makespan(as_jobs, 1, bytes, calls));
      jobs.push_back(users * one.back() / makespan(as_jobs, users, bytes, calls));
      communicators.push_back(users * one.back() / makespan(as_communicators, users, bytes, calls));
    }
    std::printf("%10zu  %12.2f  %8.2f  %14.2f\n", bytes, median(one) / calls * 1e6, median(jobs),
                median(communicators));
    kept = kept && std::min(median(jobs), median(communicators)) >= 0.9;
    results.push_back({{"bytes", bytes},
                       {"one_seconds", median(one) / calls},
                       {"jobs", median(jobs)},
                       {"communicators", median(communicators)}});
  }
  if (!json.empty()) {
    std::ofstream file(json);
    file << results.dump(2) << '\n';
    if (!file.flush()) {
      std::fprintf(stderr, "together: cannot write %s\n", json.c_str());
      return 2;
    }
  }
  return kept ? 0 : 1;
}
