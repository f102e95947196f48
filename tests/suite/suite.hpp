// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// What every transport must do, whatever its ranks are: each collective, in place and out of place, in ordinary memory
// and in the transport's own, for counts and sizes of all kinds, for every type, operator and policy, to the bit. A
// transport gets all of it in one line:
//
//     RINGLET_SUITE(tests::threads<my_transport>, tests::processes<my_transport>);
//
// No more is asked of it than the concept `transport` says. Settings that have slots are tried small, too.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "../ranks.hpp"
#include "collectives.hpp"
#include "memory.hpp"
#include "pairings.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/point_to_point.hpp"

namespace suite {

// Whose contributions went into a value, and where it belongs: two bits a rank that count (for many ranks one bit), and
// above them a number that the element's place alone decides.
inline std::uint64_t contribution(int rank, std::size_t i, int size) {
  int const width = size <= 16 ? 2 : 1;
  std::uint64_t const place = i % static_cast<std::size_t>(size) == static_cast<std::size_t>(rank) ? mixed(i) << 32 : 0;
  return place + (std::uint64_t{1} << (width * rank));
}
inline std::uint64_t everybodys(std::size_t i, int size) {
  std::uint64_t sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += contribution(rank, i, size);
  return sum;
}

// None, one, one too few or too many for a chunk each, odd ones, and more than a round of small slots holds.
inline std::vector<std::size_t> counts(int size) {
  auto const n = static_cast<std::size_t>(size);
  std::set<std::size_t> const all{0, 1, n - 1, n, n + 1, 2 * n + 1, 17, 64 * n, 97 * n + 5, 1009};
  return {all.begin(), all.end()};
}

template <class X>
std::vector<ringlet::connect_options<X>> shapes() {
  std::vector<ringlet::connect_options<X>> all(1);
  if constexpr (requires(typename X::settings s) { s.slots, s.slot_bytes, s.lanes; }) {
    all.push_back(tests::with_slots<X>(2, 128));
    all.push_back(tests::with_slots<X>(3, 128, 2));
    all.push_back(tests::with_slots<X>(5, 256, 3));
  }
  if constexpr (requires(typename X::settings s) { s.stage_bytes; }) all.push_back(tests::with_stage<X>(4096));
  // What goes by boards does so for where it lies, not for its size.
  if constexpr (requires(typename X::settings s) { s.board_bytes; }) all.emplace_back().select = {.one_shot_bytes = 0};
  return all;
}

// Runs f(memory) with ordinary memory and with the transport's own.
template <class Comm, class F>
void in_both_memories(Comm& comm, std::size_t bytes, F&& f) {
  std::vector<std::byte> ordinary(bytes);
  auto const own = comm.template allocate<std::byte>(bytes);
  for (std::span<std::byte> memory : {std::span(ordinary), std::span(own.data(), own.size())}) {
    arena place(memory);
    f(place);
  }
}

// Every root has its turn, over the counts.
template <class P, class Comm>
void roots_have_it(Comm& comm, std::vector<std::size_t> const& all_counts) {
  using T = typename P::element;
  in_both_memories(comm, arena::bytes(all_counts.back(), sizeof(T)), [&](arena& memory) {
    int root = 0;
    for (std::size_t count : all_counts) {
      root = (root + 1) % comm.size();
      auto reduced = [&](std::size_t i) {
        return reduced_alone<T, typename P::op_type>(root, comm.size(), &P::op,
                                                     [&](int rank) { return sample<T>(rank, i); });
      };
      auto gathered = [](T x) {
        return static_cast<T>(static_cast<typename ringlet::arithmetic<T, decltype(P::how())>::wire>(x));
      };
      collectives_with_root<T>(comm, memory, count, root, P::op(comm.rank()), P::how(), sample<T>, reduced, gathered);
    }
  });
}
template <class Comm, class... P>
void all_roots_have_it(Comm& comm, std::vector<std::size_t> const& all_counts, pairings<P...>) {
  (roots_have_it<P>(comm, all_counts), ...);
}

// Everyone sends to everyone at once, from the largest message to the smallest and back, and takes them in another
// order.
template <class T, class Comm>
void messages_arrive(Comm& comm, std::vector<std::size_t> counts) {
  counts.insert(counts.end(), counts.rbegin(), counts.rend());
  int const me = comm.rank(), size = comm.size();
  auto number = [&](int from, int to, std::size_t k) { return (from * size + to) * 100 + static_cast<int>(k); };
  std::vector<std::vector<T>> buffers;
  auto started = std::make_unique<std::deque<decltype(ringlet::async_send(comm, buffers[0], 0))>>();
  auto message = [&](int peer, std::size_t k, bool sends) {
    auto& b = buffers.emplace_back(counts[k]);
    if (sends)
      for (std::size_t i = 0; i < b.size(); ++i) b[i] = sample<T>(number(me, peer, k), i);
    started->emplace_back(comm.session(), b.data(), b.size(), peer, sends);
  };
  buffers.reserve(2 * counts.size() * static_cast<std::size_t>(size));
  for (int step = 1; step < size; ++step)
    for (std::size_t k = 0; k < counts.size(); ++k) message((me + step) % size, k, true);
  std::size_t const sent = buffers.size();
  for (int step = 1; step < size; ++step)
    for (std::size_t k = 0; k < counts.size(); ++k) message((me + step) % size, k, false);
  for (auto m = started->rbegin(); m != started->rend(); ++m) m->wait();
  for (int step = 1; step < size; ++step)
    for (std::size_t k = 0; k < counts.size(); ++k) {
      int const from = (me + step) % size;
      auto const& b = buffers[sent + static_cast<std::size_t>(step - 1) * counts.size() + k];
      place{"message " + std::to_string(k) + " from " + std::to_string(from) + " to " + std::to_string(me)}.all_are(
          std::span<T const>(b), [&](std::size_t i) { return sample<T>(number(from, me, k), i); });
    }
}

template <class Comm>
void contributions_add_up(Comm& comm, std::vector<std::size_t> const& all_counts) {
  int const size = comm.size();
  in_both_memories(comm, arena::bytes(all_counts.back(), sizeof(std::uint64_t)), [&](arena& memory) {
    for (std::size_t count : all_counts)
      all_collectives<std::uint64_t>(
          comm, memory, count, ringlet::sum{}, ringlet::keep{},
          [&](int rank, std::size_t i) { return contribution(rank, i, size); },
          [&](std::size_t i) { return everybodys(i, size); }, [](std::uint64_t x) { return x; });
  });
}

template <class P, class Comm>
void bits_are_those_of_one_rank_alone(Comm& comm, std::vector<std::size_t> const& all_counts) {
  using T = typename P::element;
  using How = decltype(P::how());
  in_both_memories(comm, arena::bytes(all_counts.back(), sizeof(T)), [&](arena& memory) {
    for (std::size_t count : all_counts) {
      auto const chunks = comm.chunks(count);
      auto reduced = [&](std::size_t i) {
        std::size_t chunk = 0;
        while (chunks.offset(chunk + 1) <= i) ++chunk;
        return reduced_alone<T, typename P::op_type>(static_cast<int>(chunk), comm.size(), &P::op,
                                                     [&](int rank) { return sample<T>(rank, i); });
      };
      auto gathered = [](T x) { return static_cast<T>(static_cast<typename ringlet::arithmetic<T, How>::wire>(x)); };
      all_collectives<T>(comm, memory, count, P::op(comm.rank()), P::how(), sample<T>, reduced, gathered);
    }
  });
}
template <class Comm, class... P>
void all_bits(Comm& comm, std::vector<std::size_t> const& all_counts, pairings<P...>) {
  (bits_are_those_of_one_rank_alone<P>(comm, all_counts), ...);
}

template <class Ranks, class Pairings>
void all_bits(Pairings all) {
  for (auto const& shape : shapes<typename Ranks::transport>())
    for (int size : {1, 2, 3, 5}) {
      CAPTURE(size);
      REQUIRE(tests::on<Ranks>(
                  size,
                  [&](auto& comm) {
                    all_bits(comm, {1, 2, 29, 331}, all);
                  },
                  shape) == 0);
    }
}

}  // namespace suite

TEST_CASE_TEMPLATE_DEFINE("C01 C02 C03 C04 C06 C08 C17 C19 C20: everyone's contribution once, where it belongs", Ranks,
                          suite_counts) {
  for (auto const& shape : suite::shapes<typename Ranks::transport>())
    for (int size : {1, 2, 3, 4, 5, 7, 8}) {
      CAPTURE(size);
      REQUIRE(tests::on<Ranks>(
                  size, [&](auto& comm) { suite::contributions_add_up(comm, suite::counts(size)); }, shape) == 0);
    }
}

TEST_CASE_TEMPLATE_DEFINE("large buffers: more than a round, more than one block", Ranks, suite_large) {
  for (int size : {2, 3}) {
    CAPTURE(size);
    REQUIRE(tests::on<Ranks>(size, [&](auto& comm) { suite::contributions_add_up(comm, {65'536, 500'009}); }) == 0);
  }
}

TEST_CASE_TEMPLATE_DEFINE("C12: sizes that are not powers of two, and many ranks", Ranks, suite_sizes) {
  for (int size : {6, 9, 15, 16, 17, 18, 28, 31}) {
    if (size > 18 && Ranks::as == tests::ranks_as::processes) continue;
    CAPTURE(size);
    auto const n = static_cast<std::size_t>(size);
    REQUIRE(tests::on<Ranks>(size, [&](auto& comm) {
              suite::contributions_add_up(comm, {n - 1, 2 * n + 3, 5000});
            }) == 0);
  }
}

TEST_CASE_TEMPLATE_DEFINE("C10 C11 C22 C24 C30 C33 C37: integers and structures, in the same bits on all ranks", Ranks,
                          suite_integers) {
  suite::all_bits<Ranks>(suite::integers{});
}

TEST_CASE_TEMPLATE_DEFINE("C10 C11 C25 C26 C29 C32 C37: numbers that round, in the same bits on all ranks", Ranks,
                          suite_floats) {
  suite::all_bits<Ranks>(suite::floats{});
}

TEST_CASE_TEMPLATE_DEFINE("collectives with a root, whoever it is", Ranks, suite_roots) {
  for (auto const& shape : suite::shapes<typename Ranks::transport>())
    for (int size : {1, 2, 3, 5}) {
      CAPTURE(size);
      REQUIRE(tests::on<Ranks>(
                  size,
                  [&](auto& comm) {
                    suite::all_roots_have_it(comm, {0, 1, 29, 331}, suite::with_roots{});
                  },
                  shape) == 0);
    }
  REQUIRE(tests::on<Ranks>(3, [&](auto& comm) { suite::all_roots_have_it(comm, {40'009}, suite::with_roots{}); }) == 0);
}

TEST_CASE_TEMPLATE_DEFINE("messages between any two ranks, where the transport has links for them", Ranks,
                          suite_messages) {
  if constexpr (ringlet::pairwise<typename Ranks::transport>) {
    for (auto const& shape : suite::shapes<typename Ranks::transport>())
      for (int size : {1, 2, 3, 5}) {
        CAPTURE(size);
        REQUIRE(tests::on<Ranks>(
                    size,
                    [&](auto& comm) {
                      suite::messages_arrive<float>(comm, {5'003, 129, 1, 0});
                      suite::messages_arrive<suite::odd_bytes>(comm, {700, 1, 43});
                    },
                    shape) == 0);
      }
    REQUIRE(tests::on<Ranks>(2, [](auto& comm) { suite::messages_arrive<float>(comm, {200'003}); }) == 0);
  }
}

#define RINGLET_SUITE(...)                                \
  TEST_CASE_TEMPLATE_INVOKE(suite_counts, __VA_ARGS__);   \
  TEST_CASE_TEMPLATE_INVOKE(suite_large, __VA_ARGS__);    \
  TEST_CASE_TEMPLATE_INVOKE(suite_sizes, __VA_ARGS__);    \
  TEST_CASE_TEMPLATE_INVOKE(suite_integers, __VA_ARGS__); \
  TEST_CASE_TEMPLATE_INVOKE(suite_roots, __VA_ARGS__);    \
  TEST_CASE_TEMPLATE_INVOKE(suite_messages, __VA_ARGS__); \
  TEST_CASE_TEMPLATE_INVOKE(suite_floats, __VA_ARGS__)
