// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/device_windows.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "../../emulated.hpp"

namespace {

using namespace tests;
using R = ringlet::emulated_runtime;

// How ranks tell each other of their parts.
class teller {
 public:
  explicit teller(self who) : who_(who) {}
  template <class Part>
  std::vector<Part> operator()(Part const& mine) {
    auto const texts = ringlet::exchange(who_, "part/" + std::to_string(exchanges_++),
                                         std::string(reinterpret_cast<char const*>(&mine), sizeof mine),
                                         std::chrono::steady_clock::now() + 10s);
    std::vector<Part> parts(texts.size(), mine);
    for (std::size_t r = 0; r < parts.size(); ++r) std::memcpy(&parts[r], texts[r].data(), sizeof mine);
    return parts;
  }

 private:
  self who_;
  int exchanges_ = 0;
};
bool allocated(void const* p) {
  return !error_of([&] { R::block_of(p); });
}

}  // namespace

TEST_CASE("a part is zeroed, and goes once all ranks have closed theirs and opened another window") {
  CHECK(launch(2, [](self who) {
          teller tell(who);
          ringlet::device_windows<R> windows;
          std::byte* const first = windows.open(who.rank, 5000, true, tell);
          for (int i = 0; i < 5000; ++i) expect(first[i] == std::byte{}, "it is not zeroed");
          if (who.rank == 0) windows.close(first);
          windows.open(who.rank, 100, true, tell);
          expect(allocated(first), "it went while a rank still had it");
          if (who.rank == 1) windows.close(first);
          windows.open(who.rank, 100, true, tell);
          expect(!allocated(first), "it stayed though all had closed it");
        }) == 0);
}

TEST_CASE("when a rank cannot share its part, no rank gets one") {
  CHECK(launch(2, [](self who) {
          teller tell(who);
          ringlet::device_windows<R> windows;
          R::here.opens = who.rank == 0;
          auto const e = error_of([&] { windows.open(who.rank, 100, true, tell); });
          expect(e, errc::out_of_memory, who.rank == 1 ? "isolated" : "rank 1 could not share 100 bytes");
          R::here.opens = true;
          windows.open(who.rank, 100, true, tell);  // and all can go on
        }) == 0);
}

TEST_CASE("ranks that do not reach each other have parts of their own") {
  CHECK(launch(2, [](self who) {
          teller tell(who);
          ringlet::device_windows<R> windows;
          R::here.shares = R::here.opens = false;
          expect(allocated(windows.open(who.rank, 100, false, tell)), "there is no part");
        }) == 0);
}
