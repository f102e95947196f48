// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Nothing is left behind, whatever happens: no names, no descriptors, no mappings, no memory, no threads.

#include <dirent.h>
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "../over_both.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/split.hpp"

using namespace tests;
using ringlet::shared_memory;

namespace {

std::set<std::string> names_in(char const* directory) {
  std::set<std::string> names;
  if (DIR* const d = ::opendir(directory); d != nullptr) {
    while (dirent const* const entry = ::readdir(d)) names.insert(entry->d_name);
    ::closedir(d);
  }
  return names;
}

// What this process holds, by the kernel's count.
struct holdings {
  std::size_t descriptors = names_in("/proc/self/fd").size(), threads = names_in("/proc/self/task").size(),
              mappings = 0;
  std::size_t resident = 0, shared = 0;  // KiB; of this process's memory and of its shared files
  holdings() {
    for (std::string const& fd : names_in("/proc/self/fd")) {
      struct stat file;
      if (::stat(("/proc/self/fd/" + fd).c_str(), &file) == 0 && S_ISREG(file.st_mode) && file.st_nlink == 0)
        shared += static_cast<std::size_t>(file.st_blocks) / 2;
    }
    std::FILE* const maps = std::fopen("/proc/self/maps", "r");
    for (int c; (c = std::fgetc(maps)) != EOF;) mappings += c == '\n';
    std::fclose(maps);
    std::FILE* const status = std::fopen("/proc/self/status", "r");
    for (char line[256]; std::fgets(line, sizeof line, status) != nullptr;) std::sscanf(line, "VmRSS: %zu", &resident);
    std::fclose(status);
  }
};

}  // namespace

OVER_BOTH("C77: a thousand connections, each used, leave no more than ten did") {
  // Each thread or process holds what it holds: with threads, rank 0 counts while the others wait.
  CHECK(launch(2,
               [](self who) {
                 using X = typename Ranks::transport;
                 holdings before;
                 ringlet::connect_options<X> options;
                 options.transport.slot_bytes = options.transport.stage_bytes = 4096;
                 for (int i = 0; i < 1000; ++i) {
                   ringlet::prefixed store(who.store, std::to_string(i) + "/");
                   auto comm = ringlet::connect(ringlet::bootstrap{who.rank, who.size, store}, options);
                   auto const window = comm.template allocate<int>(i % 10 == 0 ? 5'000 : 0);
                   ringlet::all_reduce(comm, window);
                   if (i % 50 == 0) comm.split(0);
                   ringlet::barrier(comm);
                   if (i == 10) before = holdings();
                 }
                 if (Ranks::as == ranks_as::processes || who.rank == 0) {
                   holdings const after;
                   expect(after.descriptors <= before.descriptors, "descriptors");
                   expect(after.mappings <= before.mappings + 2, "mappings");
                   expect(after.threads == before.threads, "threads");
                   expect(after.resident < before.resident + 8'192, "memory grew from " +
                                                                        std::to_string(before.resident) + " to " +
                                                                        std::to_string(after.resident) + " KiB");
                 }
                 ringlet::exchange(who, "counted", "", std::chrono::steady_clock::now() + 20s);
               },
               {.as = Ranks::as}) == 0);
}

TEST_CASE("allocating a thousand times in one communicator takes no more than once") {
  CHECK(on<processes<shared_memory>>(2, [](auto& comm) {
          holdings before;
          for (int i = 0; i < 1000; ++i) {
            auto const window = comm.template allocate<int>(50'000);
            std::fill(window.begin(), window.end(), 1);
            ringlet::all_reduce(comm, window);
            if (i == 10) before = holdings();
          }
          holdings const after;
          expect(after.descriptors == before.descriptors && after.mappings <= before.mappings + 2,
                 "descriptors or mappings");
          expect(after.resident < before.resident + 4'096 && after.shared <= before.shared, "memory");
        }) == 0);
}

TEST_CASE("there is nothing in /dev/shm, not even while ranks run: nothing for a cleaner to delete (C58)") {
  auto const before = names_in("/dev/shm");
  CHECK(launch(2, [&](self who) {
          for (char const* directory : {"", "/dev/shm"}) {
            ringlet::prefixed store(who.store, std::string(directory) + "//");
            ringlet::connect_options<shared_memory> options;
            options.transport.directory = directory;
            auto comm = ringlet::connect(ringlet::bootstrap{who.rank, who.size, store}, options);
            auto const window = comm.allocate<int>(100'000);
            ringlet::all_reduce(comm, window);
            expect(names_in("/dev/shm") == before, "a name");
          }
        }) == 0);
  CHECK(names_in("/dev/shm") == before);
}

TEST_CASE("when all ranks are killed at once nothing is left in /dev/shm") {
  auto const before = names_in("/dev/shm");
  CHECK(launch(3, [](self who) {
          ringlet::connect_options<shared_memory> options;
          options.transport.directory = "/dev/shm";
          auto comm = ringlet::connect(who, options);
          auto const window = comm.allocate<int>(100'000);
          ringlet::barrier(comm);
          ::raise(SIGKILL);
        }) == 1);
  CHECK(names_in("/dev/shm") == before);
}

TEST_CASE("connections that fail leave no descriptor and no mapping") {
  CHECK(
      launch(1, [](self who) {
        holdings before;
        for (int i = 0; i < 20; ++i) {
          ringlet::prefixed store(who.store, std::to_string(i) + "/");
          ringlet::connect_options<shared_memory> options;
          options.connect_timeout = 5ms;
          // Rank 1 never comes.
          expect(error_of([&] { ringlet::connect(ringlet::bootstrap{0, 2, store}, options); }).has_value(), "no error");
          if (i == 2) before = holdings();
        }
        holdings const after;
        expect(after.descriptors == before.descriptors && after.mappings <= before.mappings + 1, "what is held");
      }) == 0);
}

TEST_CASE("two jobs at once do not meet") {
  CHECK(launch(4, [](self who) {
          std::string const job = who.rank < 2 ? "a/" : "b/";
          ringlet::prefixed store(who.store, job);
          auto comm = ringlet::connect<shared_memory>(ringlet::bootstrap{who.rank % 2, 2, store});
          for (int i = 0; i < 200; ++i) {
            std::vector<int> x(1'000, who.rank < 2 ? 1 : 10);
            ringlet::all_reduce(comm, x);
            expect(x[999] == (who.rank < 2 ? 2 : 20), "the sum of " + job);
          }
        }) == 0);
}
