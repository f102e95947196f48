// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The emulated runtime is strict where CUDA is.
#include "ringlet/transport/emulated_runtime.hpp"

#include <dirent.h>
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>

#include "../../emulated.hpp"

namespace {

using namespace tests;
using R = ringlet::emulated_runtime;

// A process of its own for each case: the runtime may not be used before a fork.
template <class F>
int alone(F&& f) {
  return launch(1, [&](self) { f(); });
}
// Gives rank 0's handle to rank 1, and lets rank 0 wait until rank 1 is through.
template <class F, class G>
int owner_and_other(F&& owner, G&& other) {
  return launch(2, [&](self who) {
    auto const until = std::chrono::steady_clock::now() + 10s;
    if (who.rank == 0) {
      auto const h = owner();
      who.store.set("handle", std::string(reinterpret_cast<char const*>(&h), sizeof h));
      who.store.get("done", until);
    } else {
      R::handle h;
      std::memcpy(&h, who.store.get("handle", until).data(), sizeof h);
      other(h);
      who.store.set("done", "");
    }
  });
}
void must_fail(std::string const& words, auto&& f) { expect(error_of(f), errc::unsupported, words); }

struct fill_with {
  int* at;
  int count, value;
  template <ringlet::kernel_worker W>
  RINGLET_HD void operator()(W const& w, unsigned block, unsigned blocks) const {
    for (int i = static_cast<int>(block * w.size() + w.rank()); i < count; i += static_cast<int>(blocks * w.size()))
      at[i] = value;
    w.sync();
  }
};

}  // namespace

TEST_CASE("C83: a handle names the whole allocation, and knows nothing of what lies within") {
  CHECK(owner_and_other(
            [] {
              auto* const p = static_cast<char*>(R::allocate(10000));
              p[0] = 'a', p[5000] = 'b';
              expect(R::block_of(p + 5000) == std::pair<void*, std::size_t>(p, 10000), "the base is another");
              return R::share(p + 5000);
            },
            [](R::handle const& h) {
              auto* const p = static_cast<char*>(R::open(h));
              expect(p[0] == 'a' && p[5000] == 'b', "what was opened is not the allocation");
              R::close(p);
            }) == 0);
}

TEST_CASE("a process cannot open its own handle, nor release what is inside an allocation") {
  CHECK(alone([] {
          auto* const p = static_cast<char*>(R::allocate(4096));
          must_fail("own", [&] { R::open(R::share(p)); });
          must_fail("base", [&] { R::release(p + 256); });
          R::release(p);
          must_fail("base", [&] { R::release(p); });
          must_fail("no allocation", [&] { R::share(p); });
        }) == 0);
}

TEST_CASE("what is opened twice is one mapping, to be closed twice") {
  CHECK(owner_and_other([] { return R::share(R::allocate(4096)); },
                        [](R::handle const& h) {
                          void* const p = R::open(h);
                          expect(R::open(h) == p, "it was mapped twice");
                          R::close(p);
                          *static_cast<volatile char*>(p) = 1;
                          R::close(p);
                          must_fail("nothing was opened", [&] { R::close(p); });
                        }) == 0);
}

TEST_CASE("a handle of memory that was released, or whose owner was killed, opens nothing") {
  CHECK(owner_and_other(
            [] {
              void* const p = R::allocate(4096);
              auto const h = R::share(p);
              R::release(p);
              R::allocate(4096);  // may get the same descriptor, and yet is other memory
              return h;
            },
            [](R::handle const& h) { must_fail("released", [&] { R::open(h); }); }) == 0);
  CHECK(launch(1, [](self) {
          int ends[2];
          expect(::pipe(ends) == 0, "no pipe");
          pid_t const owner = ::fork();
          if (owner == 0) {
            auto const h = R::share(R::allocate(4096));
            [[maybe_unused]] auto const n = ::write(ends[1], &h, sizeof h);
            ::pause();
          }
          R::handle h;
          expect(::read(ends[0], &h, sizeof h) == sizeof h, "no handle came");
          ::kill(owner, SIGKILL);
          ::waitpid(owner, nullptr, 0);
          must_fail("has ended", [&] { R::open(h); });
        }) == 0);
}

TEST_CASE("nothing is left in /dev/shm by a process that is killed") {
  constexpr std::size_t bytes = 7 * 77 * 4096;  // as nobody else has, for others may leave and take theirs meanwhile
  auto count = [] {
    int n = 0;
    DIR* const d = ::opendir("/dev/shm");
    for (dirent const* e; d != nullptr && (e = ::readdir(d)) != nullptr;) {
      struct stat file {};
      n += ::fstatat(::dirfd(d), e->d_name, &file, 0) == 0 && file.st_size == bytes;
    }
    if (d != nullptr) ::closedir(d);
    return n;
  };
  pid_t const pid = ::fork();
  if (pid == 0) {
    R::allocate(bytes);
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(pid, nullptr, 0);
  CHECK(count() == 0);
}

TEST_CASE("whoever was forked after the first call can make none") {
  CHECK(alone([] {
          R::allocate(64);
          expect(launch(1, [](self) { must_fail("before the process was forked", [] { R::allocate(64); }); }) == 0,
                 "the fork could");
        }) == 0);
}

TEST_CASE("streams run in order, beside the host and beside each other") {
  CHECK(alone([] {
          stream a, b;
          auto* const word = static_cast<std::uint64_t*>(R::allocate(64));
          auto* const numbers = static_cast<int*>(R::allocate(1000 * sizeof(int)));
          R::wait_value(a.get(), word, 5);
          R::launch(a.get(), 3, 32, fill_with{numbers, 1000, 7});
          auto const e = R::make_event();
          R::record(e, a.get());
          R::wait(b.get(), e);
          int last = 0;
          R::copy(b.get(), &last, &numbers[999], sizeof last);
          expect(!R::idle(a.get()) && !R::idle(b.get()) && !R::passed(e), "it went on before the value came");
          stream c;
          R::write_value(c.get(), word, 6);
          R::synchronise(b.get());
          expect(last == 7 && R::passed(e), "the kernel or the event was not waited for");
          R::synchronise(a.get());
          expect(R::idle(a.get()), "it is not idle");
        }) == 0);
}

TEST_CASE("values are compared as signed differences, as CUDA's streams do") {
  CHECK(alone([] {
          stream s;
          auto* const word = static_cast<std::uint64_t*>(R::allocate(64));
          *word = ~std::uint64_t{0};  // not the largest number, but minus one
          R::wait_value(s.get(), word, 1);
          std::this_thread::sleep_for(5ms);  // long enough to go wrong; it never ends early when right
          expect(!R::idle(s.get()), "minus one was taken for more than one");
          __atomic_store_n(word, 1, __ATOMIC_RELEASE);
          R::synchronise(s.get());
        }) == 0);
}

TEST_CASE("waiting for an event that was never recorded is waiting for nothing") {
  CHECK(alone([] {
          stream s;
          R::wait(s.get(), R::make_event());
          R::synchronise(s.get());
        }) == 0);
}

TEST_CASE("what is captured does not run until the graph does, and a stream that captures cannot be waited for") {
  CHECK(alone([] {
          stream s;
          auto* const numbers = static_cast<int*>(R::allocate(sizeof(int)));
          R::begin_capture(s.get());
          expect(R::capturing(s.get()), "it does not capture");
          R::launch(s.get(), 1, 32, fill_with{numbers, 1, 3});
          must_fail("capturing", [&] { R::synchronise(s.get()); });
          auto const graph = R::end_capture(s.get());
          R::synchronise(s.get());
          expect(*numbers == 0, "it ran while it was captured");
          R::replay(s.get(), graph);
          R::synchronise(s.get());
          expect(*numbers == 3, "the graph did not run");
        }) == 0);
}

TEST_CASE("a launch that cannot have all its blocks at once is refused") {
  CHECK(alone([] {
          stream s;
          must_fail("cooperative", [&] { R::launch(s.get(), 100000, 32, fill_with{nullptr, 0, 0}); });
          must_fail("configuration", [&] { R::launch(s.get(), 1, 0, fill_with{nullptr, 0, 0}); });
          must_fail("no such device", [] { R::use(1000); });
        }) == 0);
}
