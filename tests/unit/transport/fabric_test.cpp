// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/fabric.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "../../fabric/fake_provider.hpp"
#include "../../fabric/over.hpp"
#include "../../ranks.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/broadcast.hpp"
#include "ringlet/split.hpp"

using namespace tests;
using ringlet::fabric;

static_assert(ringlet::transport<fabric>);
// Capabilities that a transport may have, and this one has.
static_assert(fabric::yields == 0);
static_assert(requires(fabric & x, std::byte* p) { x.settle(), x.close_window(p); });

namespace {

constexpr std::size_t count = 1'000'000;

// The error with which ranks fail to connect; each rank's settings by `set(settings, rank)`.
template <class Set>
std::vector<std::string> refusals(int size, Set set) {
  std::vector<std::string> words(static_cast<std::size_t>(size));
  CHECK(launch(size,
               [&](self who) {
                 auto options = options_of<over_fake<"plain">>();
                 set(options.transport, who.rank);
                 options.connect_timeout = 10s;
                 if (auto const e = error_of([&] { ringlet::connect<fabric>(who, options); }))
                   words[static_cast<std::size_t>(who.rank)] = e->what();
               },
               {.as = ranks_as::threads}) == 0);
  return words;
}

}  // namespace

TEST_CASE("settings that cannot work are refused by name") {
  fabric::settings s;
  s.check();
  auto refused = [&](auto set, char const* words) {
    fabric::settings bad;
    set(bad);
    expect(error_of([&] { bad.check(); }), errc::invalid_argument, words);
  };
  refused([](auto& b) { b.slots = 1; }, "slots is 1");
  refused([](auto& b) { b.slots = 65; }, "slots is 65");
  refused([](auto& b) { b.slot_bytes = 100; }, "slot_bytes is 100");
  refused([](auto& b) { b.lanes = 17; }, "lanes is 17");
  fabric::settings other;
  other.provider = "net", other.interface = "eth0";
  CHECK(other.describe() == s.describe());  // each host's own business
  other.slots = 5;
  CHECK(other.describe() != s.describe());
}

TEST_CASE("ranks without a common provider are refused on all, with what each has") {
  for (auto const &words : refusals(3, [](auto&s, int rank) { s.provider = rank == 1 ? "=reordered" : "=plain"; }))
    CHECK_MESSAGE(contains(words, "no provider in common: rank 0 has plain/0, rank 1 has reordered/0, rank 2"), words);
}

TEST_CASE("of several the best that all have is taken") {
  CHECK(launch(2,
               [](self who) {
                 auto options = options_of<over_fake<"plain">>();
                 options.transport.provider = who.rank == 0 ? "=plain,storms,reordered" : "=reordered,storms";
                 auto comm = ringlet::connect<fabric>(who, options);
                 expect(comm.transport().provider() == "storms" || comm.transport().provider() == "reordered",
                        comm.transport().provider());
               },
               {.as = ranks_as::threads}) == 0);
}

TEST_CASE("in a process forked after libfabric was loaded, no provider is taken that opened its devices before") {
  auto const& library = ringlet::fabric_library::open("");
  ringlet::fabric_library::wish const wish{"=verbs;fake", "", ""};
  CHECK(library.find(wish).choices.size() == 1);
  pid_t const child = ::fork();
  if (child == 0) {
    auto const e = error_of([&] { library.find(wish); });
    bool const said = e && contains(e->what(), "verbs;fake on fake0 (not in a process that was forked");
    ::_exit(said && library.find({"=plain", "", ""}).choices.size() == 1 ? 0 : 1);
  }
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("a rank on which nothing fits is named on all") {
  auto const all = refusals(2, [](auto& s, int rank) { s.provider = rank == 1 ? "=none" : "=plain"; });
  CHECK_MESSAGE(contains(all[0], "rank 1: nothing in libfabric"), all[0]);
  CHECK_MESSAGE(contains(all[1], "there is: "), all[1]);
}

TEST_CASE("what a provider cannot do is found out when connecting") {
  for (auto const &words : refusals(2, [](auto&s, int) { s.provider = "=nothing"; }))
    CHECK_MESSAGE(contains(words, "provider nothing has neither writes with CQ data nor tagged messages"), words);
  for (auto const &words : refusals(2, [](auto&s, int) { s.slot_bytes = 2 << 20; }))
    CHECK_MESSAGE(contains(words, "takes messages of 1048576 bytes at most"), words);
}

TEST_CASE_TEMPLATE("remote writes where they work, messages where they do not", Ranks, over_fake<"plain">,
                   over_fake<"rx_cq_data">, over_fake<"no_writes">, over_fake<"endpoint_memory">) {
  CHECK(on<Ranks>(2, [](auto& comm) {
          auto const& provider = comm.transport().provider();
          expect(comm.transport().level() == (provider == "plain" || provider == "rx_cq_data" ? 2 : 1), provider);
        }) == 0);
}

// What this rank owes the previous one may end only when that one looks, and that one may be elsewhere.
TEST_CASE_TEMPLATE("communicators that share their ranks may take turns", Ranks, over_fake<"plain">,
                   over_fake<"null_inject">, over_fake<"everything">) {
  ringlet::connect_options<fabric> options;
  options.transport.chord_bytes = 0;
  options.timeout = 3s;
  CHECK(on<Ranks>(
            4,
            [](auto& comm) {
              auto part = comm.split(0, -comm.rank());
              std::vector<int> x(30'000), y(100);
              for (int i = 0; i < 30; ++i) {
                ringlet::all_reduce(comm, x);
                ringlet::all_reduce(*part, y);
                ringlet::broadcast(comm, x, i % 4);
              }
            },
            options) == 0);
}

TEST_CASE("ordinary memory is as good while it is registered, and only then") {
  CHECK(on<over_fake<"registers">>(2, [](auto& comm) {
          std::vector<float> memory(count, 1.0F);
          auto const run = [&](bool copied) {
            auto const before = comm.transport().statistics();
            ringlet::all_reduce(comm, memory, ringlet::maximum{});
            auto const after = comm.transport().statistics();
            expect((after.landed == before.landed) == copied, "landing");
            expect((after.staged != before.staged) == copied, "staging");
            expect((after.final_in_slots != before.final_in_slots) == copied, "copies");
          };
          run(true);
          {
            fabric::registered first(comm.transport(), memory);
            auto const known = std::move(first);
            run(false);
          }
          run(true);
          std::vector<float> nothing;
          fabric::registered const none(comm.transport(), nothing);
        }) == 0);
}

TEST_CASE("an allocation that the provider does not take is refused on all ranks, and costs nothing") {
  CHECK(on<over_fake<"plain">>(2, [](auto& comm) {
          expect(error_of([&] { comm.template allocate<char>(fake::most_memory + 1); }), errc::out_of_memory,
                 "ulimit -l");
          auto const memory = comm.template allocate<char>(1000);
          expect(std::count(memory.begin(), memory.end(), 0) == 1000, "zeros");
        }) == 0);
}

TEST_CASE("a provider's failure ends the operation on all ranks, in its words") {
  std::string words[2];
  CHECK(launch(2,
               [&](self who) {
                 auto comm = ringlet::connect<fabric>(who, options_of<over_fake<"fails">>());
                 std::vector<int> x(100);
                 auto const e = error_of([&] {
                   for (;;) ringlet::all_reduce(comm, x);
                 });
                 expect(e, errc::peer_lost, "");
                 words[who.rank] = e->what();
                 expect(error_of([&] { fabric::registered(comm.transport(), x); }), errc::not_connected, "");
               },
               {.as = ranks_as::threads}) == 0);
  // Of the one that noticed first; both may at once.
  for (auto const& said : words)
    CHECK_MESSAGE(contains(said, "provider fails: Connection reset by peer (the fake's own words)"), said);
}
