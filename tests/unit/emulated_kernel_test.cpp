// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/emulated_kernel.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ringlet::kernel_worker;

// A block goes through many rounds, in which each member writes its place, then reads all places after a barrier.
struct rounds {
  unsigned* places;  // one for each member of each block
  unsigned* wrong;   // likewise
  static constexpr unsigned count = 20;

  template <kernel_worker W>
  void operator()(W const& worker, unsigned block, unsigned) const {
    unsigned* const mine = places + block * worker.size();
    for (unsigned k = 1; k <= count; ++k) {
      mine[worker.rank()] = k;
      worker.sync();
      for (unsigned i = 0; i < worker.size(); ++i) wrong[block * worker.size() + worker.rank()] += mine[i] != k;
      worker.sync();
    }
  }
};

// The last member writes, all read.
struct commons {
  unsigned* wrong;
  template <kernel_worker W>
  void operator()(W const& worker, unsigned block, unsigned) const {
    auto* const common = static_cast<unsigned*>(worker.common());
    std::size_t const count = ringlet::common_bytes / sizeof(unsigned);
    if (worker.rank() + 1 == worker.size())
      for (std::size_t i = 0; i < count; ++i) common[i] = block + 1;
    worker.sync();
    for (std::size_t i = 0; i < count; ++i) wrong[block * worker.size() + worker.rank()] += common[i] != block + 1;
  }
};

// What a leader says, and what it has written, is known to all; only one speaks.
struct leaders {
  struct answer {
    std::size_t number;
    unsigned* where;
  };
  unsigned* spoken;  // for each block, how often
  unsigned* wrong;   // for each member of each block

  struct speak {
    unsigned* spoken;
    answer operator()() const { return {++*spoken, spoken}; }
  };
  template <kernel_worker W>
  void operator()(W const& worker, unsigned block, unsigned) const {
    for (unsigned k = 1; k <= 20; ++k) {
      answer const a = worker.leader(speak{spoken + block});
      unsigned& bad = wrong[block * worker.size() + worker.rank()];
      bad += a.number != k || a.where != spoken + block || *a.where != k;
      worker.sync();  // all have read it
    }
  }
};

// Blocks that wait for each other: each adds its number when it is its turn.
struct turns {
  std::atomic<unsigned>* turn;
  struct take {
    std::atomic<unsigned>* turn;
    unsigned mine;
    bool operator()() const { return turn->load() == mine; }
  };
  template <kernel_worker W>
  void operator()(W const& worker, unsigned block, unsigned blocks) const {
    unsigned const mine = blocks - 1 - block;  // the last block is first
    for (unsigned k = 0; !worker.leader(take{turn, mine}); ++k) worker.pause(k);
    worker.sync();
    if (worker.rank() == 0) turn->fetch_add(1);
  }
};

template <class Body>
void run(bool fibres, unsigned blocks, unsigned threads, std::uint64_t seed, Body const& body) {
  if (fibres)
    ringlet::run_on_fibres(blocks, threads, seed, body);
  else
    ringlet::run_on_threads(blocks, threads, body);
}

unsigned sum(std::vector<unsigned> const& all) {
  unsigned s = 0;
  for (unsigned v : all) s += v;
  return s;
}

// Says in which order members came.
struct order {
  std::vector<unsigned>* came;
  template <kernel_worker W>
  void operator()(W const& worker, unsigned block, unsigned) const {
    came->push_back(block * worker.size() + worker.rank());
    worker.sync();
    came->push_back(block * worker.size() + worker.rank());
  }
};

}  // namespace

TEST_CASE("a barrier lets no member go before all have come, and shows all that they wrote") {
  for (bool fibres : {false, true})
    for (unsigned threads : {1u, 2u, 5u, 33u}) {
      if (!fibres && threads > 5) continue;
      std::vector<unsigned> places(3 * threads), wrong(3 * threads);
      run(fibres, 3, threads, threads, rounds{places.data(), wrong.data()});
      CHECK(sum(wrong) == 0);
      CHECK(sum(places) == 3 * threads * rounds::count);
    }
}

TEST_CASE("members of a block have memory in common, blocks have not") {
  for (bool fibres : {false, true})
    for (unsigned threads : {1u, 3u}) {
      std::vector<unsigned> wrong(2 * threads);
      run(fibres, 2, threads, 5, commons{wrong.data()});
      CHECK(sum(wrong) == 0);
    }
}

TEST_CASE("one member speaks for all") {
  for (bool fibres : {false, true})
    for (unsigned threads : {1u, 2u, 7u}) {
      std::vector<unsigned> spoken(2), wrong(2 * threads);
      run(fibres, 2, threads, 3, leaders{spoken.data(), wrong.data()});
      CHECK(sum(wrong) == 0);
      CHECK(spoken[0] == 20);
      CHECK(spoken[1] == 20);
    }
}

TEST_CASE("blocks may wait for each other") {
  for (bool fibres : {false, true})
    for (unsigned threads : {1u, 2u, 4u}) {
      std::atomic<unsigned> turn = 0;
      run(fibres, 5, threads, 4, turns{&turn});
      CHECK(turn == 5);
    }
}

TEST_CASE("the seed decides the order of fibres, and nothing else does") {
  auto const order_of = [](std::uint64_t seed) {
    std::vector<unsigned> came;
    ringlet::run_on_fibres(3, 16, seed, order{&came});
    return came;
  };
  CHECK(order_of(1) == order_of(1));
  CHECK(order_of(1) != order_of(2));
  CHECK(order_of(1).size() == 2 * 3 * 16);
}
