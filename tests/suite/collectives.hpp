// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>

#include "../ranks.hpp"
#include "memory.hpp"
#include "ringlet/all_gather.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/broadcast.hpp"
#include "ringlet/element.hpp"
#include "ringlet/reduce.hpp"
#include "ringlet/reduce_scatter.hpp"

namespace suite {

using tests::expect;

// Bytes may differ where a type has padding; for such a type, overload this beside it.
template <class T>
bool same_bits(T const& a, T const& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// Where an operation failed to do what it should, in words.
struct place {
  std::string words;
  template <class T, class F>
  void all_are(std::span<T const> got, F&& expected) const {
    for (std::size_t i = 0; i < got.size(); ++i)
      if (!same_bits(got[i], static_cast<T>(expected(i))))
        throw std::runtime_error(words + ": element " + std::to_string(i) + " is wrong");
  }
};

// Runs every collective, out of place and in place, in the memory given, and compares each element, the guards around
// all buffers, and what must not have been written. `given(rank, i)` is element i of a rank's input, `reduced(i)`
// element i of the reduction, `gathered(x)` what becomes of x.
template <class T, class Comm, class Op, class How, class Given, class Reduced, class Gathered>
void all_collectives(Comm& comm, arena& memory, std::size_t count, Op op, How how, Given given, Reduced reduced,
                     Gathered gathered) {
  auto const chunks = comm.chunks(count);
  auto const me = static_cast<std::size_t>(comm.rank());
  std::size_t const home = chunks.offset(me), mine = chunks.length(me);
  auto owner = [&](std::size_t i) {
    std::size_t r = 0;
    while (chunks.offset(r + 1) <= i) ++r;
    return static_cast<int>(r);
  };
  auto own = [&](std::size_t i) { return given(comm.rank(), i); };
  auto fill = [&](std::span<T> to, std::size_t first) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = own(first + i);
  };
  auto begin = [&](char const* what) {
    memory.clear();
    return place{"rank " + std::to_string(me) + " of " + std::to_string(comm.size()) + ", " + what + " of " +
                 std::to_string(count) + " " + ringlet::element_name<T>};
  };
  auto finish = [&](place const& p) { expect(memory.guards_hold(), p.words + ": wrote beside its buffers"); };
  using read = std::span<T const>;

  for (bool in_place : {false, true}) {
    {
      auto const p = begin(in_place ? "all_reduce in place" : "all_reduce");
      auto const in = memory.place<T>(count, true), out = in_place ? in : memory.place<T>(count, true);
      fill(in, 0);
      if (in_place)
        ringlet::all_reduce(comm, out, op);
      else
        ringlet::all_reduce(comm, read(in), out, op);
      p.all_are(read(out), reduced);
      if (!in_place) place{p.words + ", its input"}.all_are(read(in), own);
      finish(p);
    }
    {
      auto const p = begin(in_place ? "reduce_scatter in place" : "reduce_scatter");
      auto const in = memory.place<T>(count, true),
                 out = in_place ? in.subspan(home, mine) : memory.place<T>(mine, true);
      fill(in, 0);
      if (in_place)
        ringlet::reduce_scatter(comm, in, op);
      else
        ringlet::reduce_scatter(comm, read(in), out, op);
      p.all_are(read(out), [&](std::size_t i) { return reduced(home + i); });
      place{p.words + ", its input"}.all_are(
          read(in), [&](std::size_t i) { return in_place && i >= home && i < home + mine ? reduced(i) : own(i); });
      finish(p);
    }
    {
      auto const p = begin(in_place ? "all_gather in place" : "all_gather");
      auto const out = memory.place<T>(count, true),
                 in = in_place ? out.subspan(home, mine) : memory.place<T>(mine, true);
      fill(in, home);
      if (in_place)
        ringlet::all_gather(comm, out, how);
      else
        ringlet::all_gather(comm, read(in), out, how);
      p.all_are(read(out), [&](std::size_t i) { return gathered(given(owner(i), i)); });
      if (!in_place) place{p.words + ", its input"}.all_are(read(in), [&](std::size_t i) { return own(home + i); });
      finish(p);
    }
  }
}

// The same for the collectives with a root: `reduced(i)` is element i of the reduction at the root.
template <class T, class Comm, class Op, class How, class Given, class Reduced, class Gathered>
void collectives_with_root(Comm& comm, arena& memory, std::size_t count, int root, Op op, How how, Given given,
                           Reduced reduced, Gathered gathered) {
  int const me = comm.rank();
  using read = std::span<T const>;
  auto own = [&](std::size_t i) { return given(me, i); };
  auto roots = [&](std::size_t i) { return gathered(given(root, i)); };
  for (bool in_place : {false, true})
    for (bool reduces : {false, true}) {
      place const p{"rank " + std::to_string(me) + " of " + std::to_string(comm.size()) +
                    (reduces ? ", reduce" : ", broadcast") + (in_place ? " in place" : "") + " of " +
                    std::to_string(count) + " " + ringlet::element_name<T> + ", root " + std::to_string(root)};
      memory.clear();
      // Others than the root need have no input, or no output.
      bool const gives = reduces || me == root || in_place, takes = !reduces || me == root || in_place;
      auto const in = memory.place<T>(gives ? count : 0, true),
                 out = in_place ? in : memory.place<T>(takes ? count : 0, true);
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = own(i);
      if (reduces && in_place)
        ringlet::reduce(comm, out, root, op);
      else if (reduces)
        ringlet::reduce(comm, read(in), out, root, op);
      else if (in_place)
        ringlet::broadcast(comm, out, root, how);
      else
        ringlet::broadcast(comm, read(in), out, root, how);
      if (!reduces)
        p.all_are(read(out), roots);
      else if (me == root)
        p.all_are(read(out), reduced);
      if (!in_place || (reduces && me != root)) place{p.words + ", its input"}.all_are(read(in), own);
      expect(memory.guards_hold(), p.words + ": wrote beside its buffers");
    }
}

}  // namespace suite
