// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/bootstrap/launch.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>

#include "store_contract.hpp"

namespace {

using ringlet::launch;
using ringlet::launch_options;
using ringlet::ranks_as;
using self = ringlet::bootstrap<ringlet::memory_store>;

launch_options as(ranks_as kind) { return {.as = kind}; }

// Runs f with a stream sent to a file; gives what was written.
template <class F>
std::string written_to(FILE* stream, F&& f) {
  std::fflush(stream);
  FILE* const file = std::tmpfile();
  int const before = ::dup(::fileno(stream));
  ::dup2(::fileno(file), ::fileno(stream));
  f();
  std::fflush(stream);
  ::dup2(before, ::fileno(stream));
  ::close(before);
  std::string text(static_cast<std::size_t>(::lseek(::fileno(file), 0, SEEK_END)), '\0');
  CHECK(::pread(::fileno(file), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  std::fclose(file);
  return text;
}

bool contains(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("every rank runs once, knows who it is, and meets the others") {
  for (ranks_as kind : {ranks_as::processes, ranks_as::threads}) {
    for (int size : {1, 2, 5}) {
      int const code = launch(
          size,
          [&](self b) {
            if (b.size != size) throw std::runtime_error("wrong size");
            ringlet::agree(b, "", in_ms(20'000));
            auto const all = ringlet::exchange(b, "rank", std::to_string(b.rank), in_ms(20'000));
            for (int r = 0; r < size; ++r) {
              if (all[static_cast<std::size_t>(r)] != std::to_string(r)) throw std::runtime_error("wrong rank");
            }
          },
          as(kind));
      CHECK(code == 0);
    }
  }
}

TEST_CASE("ranks are other processes than the caller, or threads of it") {
  pid_t const caller = ::getpid();
  CHECK(launch(2, [&](self) { return ::getpid() == caller ? 1 : 0; }) == 0);
  CHECK(launch(
            2, [&](self) { return ::getpid() == caller ? 0 : 1; }, as(ranks_as::threads)) == 0);
}

TEST_CASE("an exception in a rank is printed with the rank, and is a failure") {
  for (ranks_as kind : {ranks_as::processes, ranks_as::threads}) {
    int code = 0;
    auto const text = written_to(stderr, [&] {
      code = launch(
          3,
          [](self b) {
            if (b.rank == 2) throw std::runtime_error("words");
          },
          as(kind));
    });
    CHECK(code == 1);
    CHECK(text == "rank 2: words\n");
  }
}

TEST_CASE("whatever is thrown") {
  auto const text = written_to(stderr, [] { CHECK(launch(1, [](self) { throw 42; }) == 1); });
  CHECK(contains(text, "rank 0: threw"));
}

TEST_CASE("a number other than 0 is a failure") {
  for (ranks_as kind : {ranks_as::processes, ranks_as::threads}) {
    auto const text = written_to(stderr, [&] {
      CHECK(launch(
                2, [](self b) { return b.rank * 256; }, as(kind)) == 1);
    });
    CHECK(text == "rank 1: returned 256\n");
  }
}

TEST_CASE("a rank that exits by itself is a failure only with a code") {
  CHECK(launch(1, [](self) { ::_exit(0); }) == 0);
  auto const text = written_to(stderr, [] { CHECK(launch(1, [](self) { ::_exit(7); }) == 1); });
  CHECK(text == "rank 0: exited with code 7\n");
}

TEST_CASE("a rank killed by a signal is named with the signal") {
  auto const text = written_to(stderr, [] {
    CHECK(launch(3, [](self b) {
            if (b.rank == 1) ::kill(::getpid(), SIGKILL);
          }) == 1);
  });
  CHECK(contains(text, "rank 1: killed by signal 9"));
}

TEST_CASE("when a rank has failed, the others are ended after the grace, and said so") {
  auto const start = std::chrono::steady_clock::now();
  auto const text = written_to(stderr, [] {
    CHECK(launch(3,
                 [](self b) {
                   if (b.rank == 0) throw std::runtime_error("first");
                   for (;;) ::pause();
                 },
                 {.grace = std::chrono::milliseconds(100)}) == 1);
  });
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  CHECK(contains(text, "rank 0: first\n"));
  for (char const* rank : {"rank 1: ", "rank 2: "}) CHECK(contains(text, std::string(rank) + "killed by signal 9"));
  CHECK(contains(text, "by launch"));
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // no child is left
}

TEST_CASE("the grace is for all who need it: a rank that ends in time is not ended") {
  auto const text = written_to(stderr, [] {
    CHECK(launch(2, [](self b) {
            if (b.rank == 0) throw std::runtime_error("first");
            b.store.set("done", "");
            try {
              b.store.get("never", in_ms(100));
            } catch (ringlet::error const&) {
            }
          }) == 1);
  });
  CHECK(text == "rank 0: first\n");
}

TEST_CASE("launch waits for its own children only") {
  pid_t const other = ::fork();
  if (other == 0) ::_exit(5);
  CHECK(launch(2, [](self) {}) == 0);
  int status = 0;
  CHECK(::waitpid(other, &status, 0) == other);
  CHECK(WEXITSTATUS(status) == 5);
}

TEST_CASE("what ranks print is neither lost nor printed twice") {
  auto const text = written_to(stdout, [] {
    std::printf("caller;");
    CHECK(launch(2, [](self b) { std::printf("rank %d;", b.rank); }) == 0);
  });
  CHECK(text.size() == std::string("caller;rank 0;rank 1;").size());
  CHECK(contains(text, "caller;"));
  CHECK(contains(text, "rank 0;"));
  CHECK(contains(text, "rank 1;"));
}

TEST_CASE("C50 a rank killed during the meeting: the others name it, all end in time") {
  auto const start = std::chrono::steady_clock::now();
  auto const text = written_to(stderr, [] {
    CHECK(launch(4, [](self b) {
            if (b.rank == 1) ::kill(::getpid(), SIGKILL);
            ringlet::agree(b, "", in_ms(300));
          }) == 1);
  });
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
  for (char const* rank : {"rank 0: ", "rank 2: ", "rank 3: "}) {
    CHECK(contains(text, std::string(rank) + "rank 1 of 4 did not come"));
  }
}

TEST_CASE("ranks die with their parent, even one that is killed") {
  ringlet::memory_store seen;
  pid_t const parent = ::fork();
  if (parent == 0) {
    launch(2, [&](self b) {
      seen.set("pid " + std::to_string(b.rank), std::to_string(::getpid()));
      for (;;) ::pause();
    });
    ::_exit(0);
  }
  pid_t const ranks[] = {std::stoi(seen.get("pid 0", in_ms(10'000))), std::stoi(seen.get("pid 1", in_ms(10'000)))};
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  for (pid_t const rank : ranks) {
    auto const running = [&] {
      FILE* const file = std::fopen(("/proc/" + std::to_string(rank) + "/stat").c_str(), "r");
      if (!file) return false;
      char state = 'X';
      bool const read = std::fscanf(file, "%*d %*s %c", &state) == 1;
      std::fclose(file);
      return read && state != 'Z' && state != 'X';  // an orphan that nobody has reaped yet has ended
    };
    auto const deadline = in_ms(10'000);
    while (running() && std::chrono::steady_clock::now() < deadline) ::usleep(1000);
    CHECK_FALSE(running());
  }
}

TEST_CASE("pinned ranks have one processor each, neighbours the same where there are too few") {
  cpu_set_t before;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  int const cpus = CPU_COUNT(&before);
  for (ranks_as kind : {ranks_as::processes, ranks_as::threads}) {
    int const code = launch(cpus + 1,
                            [&](self b) {
                              cpu_set_t mine;
                              ::sched_getaffinity(0, sizeof mine, &mine);
                              if (CPU_COUNT(&mine) != 1) return 1;
                              int cpu = 0, nth = 0;
                              for (; !CPU_ISSET(cpu, &mine); ++cpu) nth += CPU_ISSET(cpu, &before) != 0;
                              return CPU_ISSET(cpu, &before) && nth == b.rank * cpus / (cpus + 1) ? 0 : 2;
                            },
                            {.as = kind, .pin = true});
    CHECK(code == 0);
  }
  cpu_set_t after;
  ::sched_getaffinity(0, sizeof after, &after);
  CHECK(CPU_EQUAL(&before, &after));
}

TEST_CASE("no ranks are refused") {
  CHECK_THROWS_AS(launch(0, [](self) {}), ringlet::error);
  CHECK_THROWS_AS(launch(
                      -3, [](self) {}, as(ranks_as::threads)),
                  ringlet::error);
}

TEST_CASE("C77 many launches leave no file open") {
  auto const next_fd = [] {
    int const fd = ::open("/dev/null", O_RDONLY);
    ::close(fd);
    return fd;
  };
  int const before = next_fd();
  for (int i = 0; i < 50; ++i) CHECK(launch(2, [](self) {}) == 0);
  CHECK(next_fd() == before);
}
