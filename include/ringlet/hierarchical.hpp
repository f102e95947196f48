// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// All-reduce over two transports: a fast one inside each host, a slower one between hosts. With L ranks on each of H
// hosts:
//
//     inside a host    reduce_scatter    rank l of the host has the host's sum of chunk l
//     across hosts     all_reduce        rank l of each host has everybody's sum of chunk l: L rings
//     inside a host    all_gather        everyone has all chunks
//
// So what goes between two hosts is what one ring of H ranks would send, however many ranks the hosts have.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringlet/all_gather.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/bootstrap/roster.hpp"
#include "ringlet/bootstrap/same_host.hpp"
#include "ringlet/collective_operation.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/error.hpp"
#include "ringlet/reduce_scatter.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/store.hpp"
#include "ringlet/transport.hpp"

namespace ringlet {

namespace detail {
// A communicator of some of the ranks.
template <class X>
struct part {
  communicator<X> comm;
  std::vector<int> ranks;  // which of all ranks these are, by rank here
};

// A fault that comes from the other part names a rank of all. Its peer is below -1, so that nobody translates it again.
inline int passed_on(int peer) { return -3 - peer; }
inline error among_all(error const& e, std::vector<int> const& ranks) {
  if (e.peer() < -1) return error(e.why(), e.words(), passed_on(e.peer()), e.step(), e.lane());
  return error(e.why(), e.words() + " (as numbered among " + named(ranks) + ")",
               e.peer() < 0 ? -1 : ranks[static_cast<std::size_t>(e.peer())], e.step(), e.lane());
}
}  // namespace detail

/// Ranks that are connected twice: with those of their own host, and with those of the same place on the other hosts.
/// Made by `connect_hierarchical`; for `all_reduce` and `barrier`. What is said of communicators goes for it, too: one
/// thread uses it, calls come in the same order on all ranks, and after a failure it is finished, on all ranks.
/// @tparam Inner the transport inside a host
/// @tparam Outer the transport between hosts
template <transport Inner, transport Outer>
class hierarchical {
 public:
  /// Of parts that are connected. Most users call `connect_hierarchical`.
  hierarchical(detail::part<Inner> inner, detail::part<Outer> outer)
      : inner_(std::move(inner)), outer_(std::move(outer)) {}

  /// This rank among all, as in the bootstrap, and how many there are.
  int rank() const { return inner_.ranks[static_cast<std::size_t>(inner_.comm.rank())]; }
  int size() const { return inner_.comm.size() * outer_.comm.size(); }

  /// The ranks of this host, by rank; `inner().allocate` gives memory in which they reach each other. Who uses a part
  /// by itself numbers ranks as the part does; a fault that the other part has passed on carries -3 - r as its peer,
  /// for rank r among all.
  communicator<Inner>& inner() { return inner_.comm; }
  /// The ranks of the same place on all hosts. Hosts are in the order of their lowest ranks.
  communicator<Outer>& outer() { return outer_.comm; }

  /// Ends everything that runs or waits here or at other ranks, with `errc::aborted`. Any thread.
  void abort(std::string_view why = "abort() was called") {
    fault const f(errc::aborted, detail::passed_on(rank()), "rank %d: %.*s", rank(), static_cast<int>(why.size()),
                  why.data());
    inner_.comm.session().fail(f);
    outer_.comm.session().fail(f);
  }

  /// A step inside the host, and one across hosts. Not for users. A fault of one part is passed on to the other, for
  /// there are ranks that only hear of it so.
  template <class F>
  void inside(F&& f) {
    run(inner_, outer_, f);
  }
  template <class F>
  void across(F&& f) {
    run(outer_, inner_, f);
  }

 private:
  template <class Here, class There, class F>
  static void run(detail::part<Here>& here, detail::part<There>& there, F& f) {
    try {
      f(here.comm);
    } catch (error const& e) {
      error const of_all = detail::among_all(e, here.ranks);
      there.comm.session().fail(fault(of_all.why(), detail::passed_on(of_all.peer()), "%s", of_all.words().c_str()));
      throw of_all;
    }
  }

  detail::part<Inner> inner_;
  detail::part<Outer> outer_;
};

namespace detail {

// All ranks, cut into hosts of equal size. Hosts, and ranks in each, are in the order of ranks.
inline std::vector<std::vector<int>> cut_into_hosts(std::vector<std::string> const& names, int size) {
  if (names.size() != static_cast<std::size_t>(size))
    throw error(errc::invalid_argument, words("there are %zu names of hosts for %d ranks", names.size(), size));
  std::vector<std::vector<int>> hosts;
  for (int rank = 0; rank < static_cast<int>(names.size()); ++rank) {
    auto const its = [&](std::vector<int> const& host) {
      return names[static_cast<std::size_t>(host[0])] == names[static_cast<std::size_t>(rank)];
    };
    auto const found = std::find_if(hosts.begin(), hosts.end(), its);
    if (found != hosts.end())
      found->push_back(rank);
    else
      hosts.push_back({rank});
  }
  for (auto const& host : hosts)
    if (host.size() != hosts[0].size())
      throw error(errc::unsupported,
                  words("one host has %zu ranks (%s), another %zu (%s): start as many on each, or use one ring",
                        hosts[0].size(), named(hosts[0]).c_str(), host.size(), named(host).c_str()),
                  host[0]);
  return hosts;
}

// Connects some of the ranks, and tells all how it went, so that none waits for ranks that have failed elsewhere.
template <class X, class M, class S>
part<X> connect_part(M& all, S& beneath, std::string const& name, std::vector<int> const& ranks,
                     connect_options<X> const& options) {
  prefixed<S> store(beneath, name + "/" + std::to_string(ranks[0]) + "/");
  int const rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), all.rank()) - ranks.begin());
  std::optional<communicator<X>> comm;
  std::string failed;
  try {
    comm = connect<X>(bootstrap{rank, static_cast<int>(ranks.size()), store}, options);
  } catch (error const& e) {
    error const of_all = among_all(e, ranks);
    failed = failure(of_all.why(), of_all.words(), of_all.peer()).substr(0, 256);
  }
  auto const until = deadline_after(options.connect_timeout) + 2 * verdict_grace;  // beyond the longest of theirs
  for (std::string const& text : all.exchange(name, failed, until))
    if (!text.empty()) verdict_of(text, all.size());  // throws it
  return {std::move(*comm), ranks};
}

}  // namespace detail

/// Connects the ranks of each host over one transport, and those of the same place on all hosts over another; a
/// collective. Like `connect` it takes the store for itself.
/// @tparam Inner the transport inside a host
/// @tparam Outer the transport between hosts
/// @param inner, outer their options; what ranks of a communicator must have alike, all ranks must have alike
/// @param hosts_of a collective: called with a meeting of all ranks and a time to be ready by, it gives a name for each
///   rank's host, by rank, the same on all ranks
/// @throws error(errc::unsupported) when hosts have different numbers of ranks
/// @throws error whatever `connect` and the transports throw, the same on all ranks
template <transport Inner, transport Outer, store S, class HostsOf = same_host>
hierarchical<Inner, Outer> connect_hierarchical(bootstrap<S> const& who, connect_options<Inner> const& inner = {},
                                                connect_options<Outer> const& outer = {}, HostsOf hosts_of = {}) {
  inner.check(), outer.check();
  auto const until = detail::deadline_after(std::max(inner.connect_timeout, outer.connect_timeout));
  detail::agreed_meeting<S> all(who, "inside: " + inner.transport.describe() + " across: " + outer.transport.describe(),
                                until);
  auto const hosts = detail::cut_into_hosts(hosts_of(all, until), who.size);
  std::vector<int> inside, across;
  std::ptrdiff_t place = 0;
  for (auto const& host : hosts)
    if (auto const me = std::find(host.begin(), host.end(), who.rank); me != host.end())
      inside = host, place = me - host.begin();
  for (auto const& host : hosts) across.push_back(host[static_cast<std::size_t>(place)]);
  auto in = detail::connect_part(all, who.store, "inside", inside, inner);
  auto out = detail::connect_part(all, who.store, "across", across, outer);
  return {std::move(in), std::move(out)};
}

namespace detail {

// An operator's part inside a host: all but the end.
template <class Op>
struct unfinished {
  static constexpr char const* name = operation_name<Op>;
  using commutative_and_associative = std::true_type;  // as `arithmetic` has found of Op
  Op op;
  template <class A>
  RINGLET_HD constexpr A operator()(A const& a, A const& b) const {
    return op(a, b);
  }
  template <class A>
    requires requires(Op const& o, A const& x) { o.lift(x); }
  RINGLET_HD constexpr A lift(A const& x) const { return op.lift(x); }
};

// Its part across hosts: what comes has been lifted, and the end is that of all ranks.
template <class Op>
struct finishing {
  static constexpr char const* name = operation_name<Op>;
  using commutative_and_associative = std::true_type;
  Op op;
  int ranks;
  template <class A>
  RINGLET_HD constexpr A operator()(A const& a, A const& b) const {
    return op(a, b);
  }
  template <class A>
    requires requires(Op const& o, A const& v) { o.finish(v, 1); }
  RINGLET_HD constexpr A finish(A const& v, int) const { return op.finish(v, ranks); }
};

// The three operators of an all_reduce. One that has neither beginning nor end is its own part.
template <class T, class Op>
struct parts_of {
  using whole = arithmetic<T, Op>;
  using bare = typename whole::operation;
  using accumulator = typename policies<Op>::accumulator;
  using wire = typename policies<Op>::wire;
  static_assert(sizeof(typename whole::wire) <= sizeof(T),
                "ringlet: between hosts and inside, sums are in the caller's memory, so they cannot travel as a type "
                "that is larger than the element");

  static auto inside(Op const& op) {
    if constexpr (whole::finishes)
      return with_policies<unfinished<bare>, accumulator, wire>{{policies<Op>::bare(op)}};
    else
      return op;
  }
  static auto across(Op const& op, int ranks) {
    if constexpr (whole::finishes || whole::lifts)
      return with_policies<finishing<bare>, accumulator, wire>{{policies<Op>::bare(op), ranks}};
    else
      return op;
  }
  using gathering = std::conditional_t<std::is_void_v<wire>, keep, with_policies<keep, void, wire>>;
};

}  // namespace detail

/// An all-reduce inside hosts, across them, and inside again: every rank's output becomes the reduction of all ranks'
/// inputs, in the same bits on all ranks.
///
/// Order of addition: the buffer is cut into chunks, one for each of the L ranks of a host, and chunk l into one part
/// for each of the H hosts. Each host adds up chunk l in the order of its ranks l+1, l+2, ..., l (mod L); those sums
/// are added, in part h, in the order of hosts h+1, h+2, ..., h (mod H). That is not the order of one ring, so of
/// floating-point sums the bits may differ from one ring's. An average is divided once, by the number of all ranks.
/// With `travel_as<W>` values travel as W in all three steps; between these they are in the output as elements, so W is
/// no larger than those.
/// @param input any count, also 0, the same on all ranks; is not written
/// @param output as many elements; may be the input itself, but not overlap it otherwise
/// @param op the operator, with its policies
/// @throws error(errc::invalid_argument) when the buffers do not fit, before anything is sent
/// @throws error as `wait` of an operation does; its peer is a rank among all
template <class Inner, class Outer, contiguous In, contiguous Out, class Op = sum>
void all_reduce(hierarchical<Inner, Outer>& all, In const& input, Out&& output, Op op = {}) {
  using T = element_of<Out>;
  using parts = detail::parts_of<T, Op>;
  static_assert(std::is_same_v<T, element_of<In const>>, "ringlet: input and output have different elements");
  auto const place = static_cast<std::size_t>(all.inner().rank());
  partition const chunks = all.inner().chunks(std::size(output));
  detail::check({std::data(input), std::size(input), std::data(output), std::size(output), sizeof(T), alignof(T),
                 sizeof(typename parts::whole::wire), collective::all_reduce},
                chunks, place, std::min(all.inner().transport().slot_bytes(), all.outer().transport().slot_bytes()));
  std::span<T> const mine(std::data(output) + chunks.offset(place), chunks.length(place));

  all.inside([&](auto& host) { reduce_scatter(host, input, mine, parts::inside(op)); });
  all.across([&](auto& hosts) { all_reduce(hosts, mine, parts::across(op, all.size())); });
  all.inside([&](auto& host) { all_gather(host, mine, output, typename parts::gathering{}); });
}

/// An all-reduce in place.
template <class Inner, class Outer, contiguous InOut, class Op = sum>
  requires(!contiguous<Op>)
void all_reduce(hierarchical<Inner, Outer>& all, InOut&& buffer, Op op = {}) { all_reduce(all, buffer, buffer, op); }

/// Waits until every rank has called it: all of this host have come, and those whom I meet say it of theirs.
/// @throws error as `all_reduce`
template <class Inner, class Outer>
void barrier(hierarchical<Inner, Outer>& all) {
  all.inside([](auto& host) { barrier(host); });
  all.across([](auto& hosts) { barrier(hosts); });
}

}  // namespace ringlet
