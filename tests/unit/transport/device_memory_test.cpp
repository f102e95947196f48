// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/device_memory.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "../../emulated.hpp"

namespace {

using namespace tests;
using R = ringlet::emulated_runtime;
using ringlet::device_memory;

// A meeting over the store of `launch`.
struct meeting {
  self who;
  int rank() const { return who.rank; }
  int size() const { return who.size; }
  std::uint64_t token() const { return 77; }
  std::vector<std::string> exchange(std::string_view name, std::string const& mine, ringlet::time_point until) {
    return ringlet::exchange(who, name, mine, until);
  }
};
auto shared_by(self who, std::string const& unwanted = "") {
  meeting m{who};
  R::use(who.rank % R::devices());
  return ringlet::share_segments<R>(m, 1000, unwanted, std::chrono::steady_clock::now() + 10s);
}

}  // namespace

TEST_CASE("C83: an offer leads into the middle of an allocation") {
  CHECK(launch(2, [](self who) {
          auto const until = std::chrono::steady_clock::now() + 10s;
          if (who.rank == 0) {
            auto const memory = device_memory<R>::allocate(100000);
            memory.data()[51200] = std::byte{9};
            ringlet::device_offer<R> const offer(memory.data() + 51200);
            who.store.set("offer", std::string(reinterpret_cast<char const*>(&offer), sizeof offer));
            who.store.get("done", until);
          } else {
            ringlet::device_offer<R> offer;
            std::memcpy(&offer, who.store.get("offer", until).data(), sizeof offer);
            auto const memory = offer.take();
            expect(*memory.data() == std::byte{9}, "the offset was lost");
            who.store.set("done", "");
          }
        }) == 0);
}

TEST_CASE("segments are whole pages of the device, so that nothing else is shared along with them") {
  CHECK(launch(1, [](self) {
          auto const memory = device_memory<R>::allocate(1000);
          expect(R::block_of(memory.data()).second == std::size_t{2} << 20, "it is not 2 MiB");
        }) == 0);
}

TEST_CASE("each rank sees all segments, in processes by handles, in threads by the pointers themselves") {
  auto const see = [](self who) {
    auto const all = shared_by(who);
    expect(all.why_not.empty() && all.parts.size() == 3 && all.devices.size() == 3, "segments are missing");
    for (std::size_t r = 0; r < 3; ++r) {
      expect(all.devices[r] == R::id(static_cast<int>(r)), "a device is another");
      all.parts[r].data()[128 + who.rank] = std::byte{1};
    }
    ringlet::exchange(who, "written", "", std::chrono::steady_clock::now() + 10s);
    for (int r = 0; r < 3; ++r)
      expect(all.parts[static_cast<std::size_t>(who.rank)].data()[128 + r] == std::byte{1}, "a rank wrote elsewhere");
    ringlet::exchange(who, "read", "", std::chrono::steady_clock::now() + 10s);
  };
  CHECK(launch(3, see) == 0);
  CHECK(launch(1, [&](self) { return launch(3, see, {.as = ranks_as::threads}); }) == 0);
}

TEST_CASE("C84, C88: what one rank cannot do, none does, and all give the same reason") {
  struct trouble {
    void (*set)(ringlet::emulated_machine&);
    char const* words;
  };
  static constexpr trouble all[] = {
      {[](auto& m) { m.shares = false; }, "rank 1: the emulated runtime says: share: invalid argument"},
      {[](auto& m) { m.opens = false; }, "rank 1: rank 0's memory: the emulated runtime says: open"},
      {[](auto& m) { m.reaches = false; }, "rank 1: rank 0's memory: the devices do not reach each other"},
      {[](auto& m) { m.true_mappings = false; }, "rank 1: what is read from rank 0 is not what it wrote"},
  };
  for (auto const& t : all)
    CHECK(launch(3, [&](self who) {
            if (who.rank == 1) t.set(R::here);
            auto const s = shared_by(who);
            expect(s.parts.empty() && contains(s.why_not, t.words), "the reason is '" + s.why_not + "'");
          }) == 0);
  CHECK(launch(2, [&](self who) {
          auto const s = shared_by(who, "it was asked for");
          expect(s.parts.empty() && s.why_not == "it was asked for", "the reason is '" + s.why_not + "'");
        }) == 0);
}

TEST_CASE("whether streams can wait for values is agreed") {
  CHECK(launch(2, [](self who) {
          R::here.waits_for_values = who.rank == 0;
          expect(!shared_by(who).all_wait_for_values, "rank 1's cannot");
        }) == 0);
}

TEST_CASE("a fork is another process, also one whose parent had been asked") {
  auto const mine = ringlet::detail::process_mark();
  CHECK(ringlet::detail::process_mark() == mine);
  CHECK(launch(1, [&](self) { expect(ringlet::detail::process_mark() != mine, "it is its parent"); }) == 0);
}
