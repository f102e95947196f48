// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the engine costs beyond the copies and sums that it must do: an all_reduce of 1 MiB of floats between two ranks
// that one thread polls in turn, over the links of in_process, and the same copies and sums by hand: for each slice the
// same calls of `combine`, with places known beforehand; no schedule, no queue, no cursor. `engine.sh` counts the
// instructions of both with callgrind, and what of a whole call goes into the communicator's counters.

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "ringlet/all_reduce.hpp"
#include "ringlet/bootstrap/launch.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/operation.hpp"
#include "ringlet/transport/in_process.hpp"

namespace {

using ringlet::status;
using sum = ringlet::arithmetic<float, ringlet::sum>;
using schedule = ringlet::ring_schedule<ringlet::collective::all_reduce>;

constexpr std::size_t count = (std::size_t{1} << 20) / sizeof(float);
constexpr ringlet::partition chunks{count, 2};
// As a communicator would choose it for this size.
constexpr ringlet::pipelining cut{count / 2 / 4, 4};
constexpr sum how{ringlet::sum{}, 2};

struct rank_buffers {
  std::vector<float> input = std::vector<float>(count, 1), output = std::vector<float>(count);
};

}  // namespace

// Names that callgrind can be told.
extern "C" [[gnu::noinline]] bool by_engine(ringlet::in_process* transports[2], rank_buffers* ranks) {
  using operation = ringlet::ring_operation<schedule, sum, ringlet::in_process::link>;
  std::optional<operation> operations[2];
  for (int r = 0; r < 2; ++r)
    operations[r].emplace(schedule{r, 2}, transports[r]->lane(0),
                          ringlet::buffers<float>{ranks[r].input.data(), ranks[r].output.data(), chunks}, cut, how);
  status states[2] = {status::pending, status::pending};
  while (states[0] == status::pending || states[1] == status::pending)
    for (int r = 0; r < 2; ++r)
      if (states[r] == status::pending) states[r] = operations[r]->poll();
  return states[0] == status::ready && states[1] == status::ready;
}

extern "C" [[gnu::noinline]] bool by_call(std::optional<ringlet::communicator<ringlet::in_process>>* comms,
                                          rank_buffers* ranks) {
  auto a = ringlet::async_all_reduce(*comms[0], ranks[0].input, ranks[0].output);
  auto b = ringlet::async_all_reduce(*comms[1], ranks[1].input, ranks[1].output);
  status states[2] = {status::pending, status::pending};
  while (states[0] == status::pending || states[1] == status::pending) states[0] = a.poll(), states[1] = b.poll();
  return states[0] == status::ready && states[1] == status::ready;
}

extern "C" [[gnu::noinline]] bool by_hand(std::byte* slots, rank_buffers* ranks) {
  constexpr ringlet::this_thread here{};
  constexpr std::size_t stride = ringlet::slot_ring<>::bytes(1, cut.width * sizeof(float));
  float* const nowhere = nullptr;
  float const* const nothing = nullptr;
  auto const slot = [&](int rank, std::size_t i) {
    return reinterpret_cast<float*>(slots + (static_cast<std::size_t>(rank) * cut.depth + i) * stride);
  };
  // Rank r sends chunk 1-r, adds up and keeps chunk r, and is sent chunk 1-r back.
  for (std::size_t i = 0; i < cut.depth; ++i)
    for (int r = 0; r < 2; ++r)
      combine(here, slot(1 - r, i), nowhere, nothing, ranks[r].input.data() + chunks.offset(1 - r) + i * cut.width,
              cut.width, how, false);
  for (std::size_t i = 0; i < cut.depth; ++i)
    for (int r = 0; r < 2; ++r) {
      std::size_t const at = chunks.offset(static_cast<std::size_t>(r)) + i * cut.width;
      combine(here, slot(r, i), ranks[r].output.data() + at, static_cast<float const*>(slot(r, i)),
              ranks[r].input.data() + at, cut.width, how, true);
    }
  for (std::size_t i = 0; i < cut.depth; ++i)
    for (int r = 0; r < 2; ++r)
      combine(here, nowhere, ranks[r].output.data() + chunks.offset(1 - r) + i * cut.width,
              static_cast<float const*>(slot(1 - r, i)), nothing, cut.width, how, false);
  return true;
}

int main(int argc, char** argv) {
  rank_buffers ranks[2];
  bool done = false;
  bool const calls = argc == 2 && std::strcmp(argv[1], "by_call") == 0;
  if (calls || (argc == 2 && std::strcmp(argv[1], "by_engine") == 0)) {
    // Ranks connect as threads; then one thread plays both.
    std::optional<ringlet::communicator<ringlet::in_process>> comms[2];
    ringlet::memory_store store;
    std::thread other([&] {
      comms[1].emplace(ringlet::connect<ringlet::in_process>(ringlet::bootstrap{1, 2, store}));
    });
    comms[0].emplace(ringlet::connect<ringlet::in_process>(ringlet::bootstrap{0, 2, store}));
    other.join();
    ringlet::in_process* transports[2] = {&comms[0]->transport(), &comms[1]->transport()};
    auto const once = [&] { return calls ? by_call(comms, ranks) : by_engine(transports, ranks); };
    once();  // before, so that nothing is new
    done = once();
  } else if (argc == 2 && std::strcmp(argv[1], "by_hand") == 0) {
    auto const slots =
        std::make_unique<std::byte[]>(2 * ringlet::slot_ring<>::bytes(cut.depth, cut.width * sizeof(float)));
    by_hand(slots.get(), ranks);
    done = by_hand(slots.get(), ranks);
  } else {
    std::fprintf(stderr, "usage: engine by_engine|by_hand|by_call\n");
    return 2;
  }
  for (auto const& r : ranks)
    for (float const x : r.output) done = done && x == 2;
  return done ? 0 : 1;
}
