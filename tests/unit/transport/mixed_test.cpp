// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/mixed.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <vector>

#include "../../../examples/07_own_transport.hpp"
#include "../../ranks.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/transport/shared_memory.hpp"

using namespace tests;

namespace {

// Makes hosts up: a letter for each rank's.
template <char... Letters>
struct letters {
  template <ringlet::meeting M>
  std::vector<std::string> operator()(M&, ringlet::time_point) const {
    return {std::string(1, Letters)...};
  }
};
template <char... Letters>
using on_hosts = ringlet::mixed<ringlet::shared_memory, sockets, letters<Letters...>>;

static_assert(ringlet::transport<on_hosts<'a'>>);
static_assert(ringlet::link<on_hosts<'a'>::link, double> && ringlet::announcing_link<on_hosts<'a'>::link>);

// Runs f(communicator) on as many ranks as there are letters, and gives what `launch` gives.
template <char... Letters, class F>
int on(on_hosts<Letters...> const*, F&& f, ringlet::connect_options<on_hosts<Letters...>> const& options = {}) {
  return launch(int{sizeof...(Letters)}, [&](self who) {
    auto comm = ringlet::connect<on_hosts<Letters...>>(who, options);
    f(comm);
  });
}
template <char... Letters>
constexpr on_hosts<Letters...> const* hosts = nullptr;

// Everyone's contribution, once, on every rank; enough of them to fill all queues several times.
template <class Comm>
void add_up(Comm& comm) {
  for (std::size_t count : {0, 1, 5, 1000, 20'011}) {
    std::vector<double> x(count, 1 << comm.rank()), all(count, 0);
    ringlet::all_reduce(comm, x, all);
    for (double got : all) expect(got == (1 << comm.size()) - 1, "the sum of all");
  }
}

// Ends that do as they are told, and count what they are asked.
struct told_to {
  bool gives = false, is_drained = true, is_broken = false;
  int asked = 0, driven = 0, committed = 0, released = 0;
  std::byte memory[8];

  template <class T>
  ringlet::slice<T> try_acquire(ringlet::placement where) {
    ++asked;
    return gives ? ringlet::slice<T>{reinterpret_cast<T*>(memory), where.count} : ringlet::slice<T>{};
  }
  template <class T>
  ringlet::slice<T> try_peek(ringlet::placement where) {
    return try_acquire<T>(where);
  }
  void announce(ringlet::call const&) {}
  ringlet::call const& announced() const { return called; }
  void commit() { ++committed; }
  void release() { ++released; }
  bool drained() const { return is_drained; }
  told_to& next() { return *this; }
  told_to& prev() { return *this; }
  bool broken() const { return is_broken; }
  void drive() { ++driven; }
  ringlet::call called;
};

// A transport that counts how often it is to wait until no peer is at this rank's buffers.
template <class X>
struct settling : X {
  using X::X;
  void settle() { ++settles; }
  int settles = 0;
};
// One that says how often a wait yields.
struct restless : sockets {
  using sockets::sockets;
  static constexpr unsigned yields = 7;
};
static_assert(ringlet::mixed<ringlet::shared_memory, restless>::yields == 7);

}  // namespace

TEST_CASE("all kinds of rings: all near, all far, one change, many, hosts of different sizes in any order") {
  auto const all_is_well = []<char... Letters>(on_hosts<Letters...> const* which) {
    for (bool few : {false, true}) {
      ringlet::connect_options<on_hosts<Letters...>> options;
      if (few) options.transport.slots = 3, options.transport.slot_bytes = 256;
      CHECK(on(
                which,
                [](auto& comm) {
                  constexpr char of[] = {Letters...};
                  for (int r = 0; r < comm.size(); ++r)
                    expect(comm.transport().is_near(r) == (of[r] == of[comm.rank()]), "which ranks are near");
                  add_up(comm);
                },
                options) == 0);
    }
  };
  all_is_well(hosts<'a'>);
  all_is_well(hosts<'a', 'a'>);
  all_is_well(hosts<'a', 'b'>);
  all_is_well(hosts<'a', 'a', 'a'>);
  all_is_well(hosts<'a', 'a', 'b', 'b'>);
  all_is_well(hosts<'a', 'b', 'a', 'b'>);
  all_is_well(hosts<'b', 'a', 'a', 'a', 'b', 'c'>);
}

TEST_CASE("without being told otherwise, ranks of this machine are near") {
  CHECK(launch(3, [](self who) {
          auto comm = ringlet::connect<ringlet::mixed<ringlet::shared_memory, sockets>>(who);
          for (int rank = 0; rank < 3; ++rank) expect(comm.transport().is_near(rank), "all are near");
          add_up(comm);
        }) == 0);
}

TEST_CASE("a slice goes and comes by the transport of its neighbour; a wait knows for which, and drives the far one") {
  for (bool to_near : {false, true})
    for (bool from_near : {false, true}) {
      CAPTURE(to_near);
      CAPTURE(from_near);
      told_to near, far, driver;
      bool awaits_far = to_near;
      ringlet::mixed_link<told_to, told_to> l(&near, &far, to_near, from_near, driver, awaits_far);

      CHECK_FALSE(l.next().try_acquire<char>({0, 1, false}));
      CHECK(awaits_far == !to_near);
      CHECK_FALSE(l.broken());
      CHECK(driver.driven == (to_near ? 1 : 0));  // who asks the far one in vain has driven it
      CHECK_FALSE(l.prev().try_peek<char>({0, 1, false}));
      CHECK(awaits_far == !from_near);
      CHECK((to_near ? near : far).asked == (to_near == from_near ? 2 : 1));

      near.gives = far.gives = true;
      CHECK(l.next().try_acquire<char>({0, 1, false}));
      l.next().commit();
      CHECK((to_near ? near : far).committed == 1);
      CHECK(l.prev().try_peek<char>({0, 1, false}));
      l.prev().release();
      CHECK((from_near ? near : far).released == 1);

      CHECK(l.next().drained());
      far.is_drained = false;  // credits for what came, too
      CHECK_FALSE(l.next().drained());
      CHECK(awaits_far);
      far.is_drained = true, near.is_drained = false;
      CHECK_FALSE(l.next().drained());
      near.is_broken = true;
      CHECK(l.broken());
      near.is_broken = false, far.is_broken = true;
      CHECK(l.broken());
    }
}

TEST_CASE("who cannot connect is named on all ranks, as among all") {
  using X = on_hosts<'a', 'b', 'a', 'b', 'b'>;
  CHECK(launch(5, [](self who) {
          ringlet::connect_options<X> options;
          if (who.rank == 3) options.transport.near.directory = "/nowhere/at/all";
          auto const e = error_of([&] { ringlet::connect<X>(who, options); });
          expect(e, errc::out_of_memory, "as numbered among ranks 1, 3, 4");
          expect(e->peer() == 3, "who is at fault");
        }) == 0);
}

TEST_CASE("who ends without a word is named as among all") {
  for (int victim = 0; victim < 4; ++victim) {
    CAPTURE(victim);
    CHECK(on(hosts<'a', 'a', 'b', 'b'>, [&](auto& comm) {
            auto const e = error_of([&] {
              ringlet::barrier(comm);
              if (comm.rank() == victim) ::_exit(0);
              for (;;) ringlet::barrier(comm);
            });
            expect(e, errc::peer_lost, "rank " + std::to_string(victim) + " has ended");
            expect(e->peer() == victim, "who is at fault");
          }) == 0);
  }
}

TEST_CASE("what a rank tells reaches those of its host and those of others") {
  for (int teller = 0; teller < 5; ++teller) {
    CAPTURE(teller);
    CHECK(on(hosts<'a', 'a', 'a', 'b', 'b'>, [&](auto& comm) {
            expect(error_of([&] {
                     ringlet::barrier(comm);
                     if (comm.rank() == teller) comm.abort("enough");
                     for (;;) ringlet::barrier(comm);
                   }),
                   errc::aborted, "rank " + std::to_string(teller) + ": enough");
          }) == 0);
  }
}

TEST_CASE("when an operation has failed, no peer is at buffers by either transport") {
  using X = ringlet::mixed<settling<ringlet::shared_memory>, settling<sockets>, letters<'a', 'a', 'b'>>;
  CHECK(launch(3, [](self who) {
          auto comm = ringlet::connect<X>(who);
          expect(error_of([&] {
                   ringlet::barrier(comm);
                   if (comm.rank() == 1) comm.abort("enough");
                   for (;;) ringlet::barrier(comm);
                 }),
                 errc::aborted, "enough");
          if (comm.rank() == 1) return;  // it had none under way
          expect(comm.transport().near().settles > 0 && comm.transport().far().settles > 0, "one has not settled");
        }) == 0);
}

TEST_CASE("what cannot work is refused, on all ranks, with the reason") {
  using X = on_hosts<'a', 'a', 'b', 'b'>;
  X::settings few;
  few.slots = 1;
  expect(error_of([&] { few.check(); }), errc::invalid_argument, "slots is 1");
  CHECK(launch(4, [](self who) {
          ringlet::connect_options<X> options;
          options.transport.lanes = 2;
          expect(error_of([&] { ringlet::connect<X>(who, options); }), errc::unsupported,
                 "links inside hosts have 2 lanes, links between hosts 1");
        }) == 0);
  CHECK(launch(4, [](self who) {  // inside one host: the other hears of it, and does not wait
          ringlet::connect_options<X> options;
          if (who.rank == 3) options.transport.near.directory = "/nowhere";
          expect(error_of([&] { ringlet::connect<X>(who, options); }), errc::out_of_memory,
                 "(as numbered among ranks 2, 3)");
        }) == 0);
  CHECK(launch(2, [](self who) {
          expect(error_of([&] { ringlet::connect<X>(who); }), errc::invalid_argument, "4 names of hosts for 2 ranks");
        }) == 0);
  CHECK(launch(2, [](self who) {
          ringlet::connect_options<on_hosts<'a', 'b'>> options;
          options.transport.slots = who.rank == 0 ? 3 : 4;
          expect(error_of([&] { ringlet::connect<on_hosts<'a', 'b'>>(who, options); }), errc::mismatch, "slots=3");
        }) == 0);
}
