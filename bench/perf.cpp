// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ringlet-perf: times collectives and checks every element of their results, with nccl-tests' letters and rows.

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "perf/command_line.hpp"
#include "perf/elements.hpp"
#include "perf/memory.hpp"
#include "perf/results.hpp"
#include "perf/settings.hpp"
#include "perf/tune.hpp"
#include "ringlet/all_gather.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/bootstrap/environment.hpp"
#if __has_include(<asio.hpp>) && !defined(__CUDACC__)  // nvcc 13 does not read Asio
#include "ringlet/bootstrap/from_environment.hpp"
#endif
#include "timing.hpp"

namespace perf {

void meet(any_communicator& any) {
  std::visit([](auto& comm) { ringlet::barrier(comm); }, any);
}
double largest(any_communicator& any, double mine) {
  std::visit([&](auto& comm) { ringlet::all_reduce(comm, std::span(&mine, 1), ringlet::maximum{}); }, any);
  return mine;
}
std::uint64_t total(any_communicator& any, std::uint64_t mine) {
  std::uint64_t all = mine;
  std::visit([&](auto& comm) { ringlet::all_reduce(comm, std::span(&all, 1)); }, any);
  return std::max(all, mine);  // whatever the collectives under test make of it, this rank's own count stays
}

namespace {

template <ringlet::store S>
any_communicator connect(ringlet::bootstrap<S> const& who, options const& o) {
  std::optional<any_communicator> made;
  with_transport(o, [&]<class X>(entry<X> const&) {
    if constexpr (has_devices<X>)  // without any, connecting says so
      if (int const n = X::runtime::devices(); n != 0) X::runtime::use(who.rank % n);
    ringlet::connect_options<X> how;
    how.transport = settings_for<X>(o);
    how.select = o.select;
    how.timeout = std::chrono::milliseconds(static_cast<long long>(o.timeout * 1000));
    made.emplace(ringlet::connect<X>(who, how));
  });
  return std::move(*made);
}

// Who and where the ranks are, as nccl-tests lists its devices.
void introduce(any_communicator& any, options const& o) {
  struct person {
    int pid, processor;
    char host[56];
  };
  person me{::getpid(), ::sched_getcpu(), ""};
  ::gethostname(me.host, sizeof me.host - 1);
  std::visit(
      [&](auto& comm) {
        std::vector<person> all(static_cast<std::size_t>(comm.size()));
        all[static_cast<std::size_t>(comm.rank())] = me;
        ringlet::all_gather(comm, all);
        if (comm.rank() != 0) return;
        std::printf("# ringlet %s %s transport: %s ranks: %d buffers: %s pinned: %d\n", version().c_str(),
                    o.collective.c_str(), o.transport.c_str(), comm.size(), o.allocated ? "allocated" : "ordinary",
                    o.pin);
        std::printf(
            "# minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %d iters: %d agg iters: 1 validation: %d\n#\n",
            o.least, o.most, o.factor > 1 ? o.factor : o.step, o.factor > 1 ? "factor" : "bytes", o.warm_up,
            o.iterations, o.checks);
        auto const name_provider = [](auto& x) {
          if constexpr (requires { x.provider(); })
            std::printf("# Using provider %s on %s, level %d\n", x.provider().c_str(), x.interface().c_str(),
                        x.level());
        };
        name_provider(comm.transport());
        if constexpr (requires { comm.transport().is_near(0, 0); }) {
          name_provider(comm.transport().far());
          int near = 0;
          for (int r = 0; r < comm.size(); ++r) near += comm.transport().is_near(r, (r + 1) % comm.size());
          std::printf("# Links: %d inside hosts, %d between\n", near, comm.size() - near);
        }
        if constexpr (has_devices<std::remove_reference_t<decltype(comm.transport())>>) {
          std::printf("# Devices: %s; %s wait for other ranks; %s%s\n",
                      o.emulated ? "EMULATED BY THE HOST: times say nothing about GPUs" : "CUDA",
                      comm.transport().stream_driven() ? "streams" : "kernels",
                      comm.transport().why_through_host().empty() ? "directly" : "through the host: ",
                      comm.transport().why_through_host().c_str());
        }
        if (o.collector)
          std::printf("# Rows with root 0: the same by a collector: rank 0 gathers all buffers, sums and sends back\n");
        std::printf("# Using ranks\n");
        for (std::size_t r = 0; r < all.size(); ++r)
          std::printf("#  Rank %2zu Pid %6d on %10s processor %2d\n", r, all[r].pid, all[r].host, all[r].processor);
      },
      any);
}

// What the transport has copied, and what not, where it counts that.
counts copies(any_communicator& any) {
  return std::visit(
      [](auto& comm) -> counts {
        if constexpr (requires { comm.transport().statistics().landed; }) {
          auto const& s = comm.transport().statistics();
          return {{"sent_from_place", s.from_place},
                  {"staged", s.staged},
                  {"landed", s.landed},
                  {"final_in_slots", s.final_in_slots}};
        } else {
          return {};
        }
      },
      any);
}

void measure_barrier(any_communicator& any, options const& o, report& to) {
  double const mine = std::visit(
      [&]<class X>(ringlet::communicator<X>& comm) {
        place<X> where;
        auto const several = [&](int n) {
          for (int i = 0; i < n; ++i) where.call(comm, [](auto&&... first) { ringlet::barrier(first...); });
          where.wait(comm);
        };
        several(o.warm_up);
        return seconds_of(1, [&] { several(o.iterations); }) / o.iterations;
      },
      any);
  result const one{largest(any, mine) * 1e6, 0, 0, std::nullopt};
  to.add({0, 0, "none", "none", one, one});
}

// What each rank does. Returns 1 when anything was wrong.
int run(any_communicator any, options const& o) {
  auto const [rank, size] = std::visit([](auto& comm) { return std::pair(comm.rank(), comm.size()); }, any);
  report r(rank == 0);
  introduce(any, o);
  r.header();
  if (o.collective == "barrier") {
    measure_barrier(any, o, r);
  } else {
    for (element_entry const& e : elements)
      if (o.type == e.name || o.type == "all") {
        if (o.collective == "broadcast")
          measure_broadcast(any, o, e.name, e.bytes, r);
        else
          e.measure(any, o, e.name, r);
      }
  }
  r.footer();
  if (rank == 0) write_results(o, size, r, copies(any));
  return r.wrong() == 0 ? 0 : 1;
}

template <ringlet::store S>
int work(ringlet::bootstrap<S> who, options const& o) {
  try {
    return o.tune.empty() ? run(connect(who, o), o) : tune(who, o);
  } catch (std::bad_alloc const&) {
    throw std::runtime_error("no memory is given to this rank: " + memory_words(o, who.size) +
                             ", or raise the limit of a process (ulimit -v)");
  }
}

}  // namespace
}  // namespace perf

int main(int argc, char** argv) {
  try {
    auto const where = ringlet::environment();
    perf::options o;
    if (auto const status = perf::parse(argc, argv, where, o)) return *status;
    if (o.explain) {
      if (where.rank <= 0) perf::explain(o);
      return 0;
    }
    if (where.launcher != "none") {
#if __has_include(<asio.hpp>) && !defined(__CUDACC__)  // nvcc 13 does not read Asio
      ringlet::launched_rank self(where, std::chrono::steady_clock::now() + std::chrono::minutes(1));
      return perf::work(self.bootstrap(), o);
#else
      throw ringlet::error(ringlet::errc::unsupported,
                           "built without Asio, it cannot meet the ranks of " + where.launcher);
#endif
    }
    int status = 1;
    perf::with_transport(o, [&](auto const& e) {
      status = ringlet::launch(o.ranks, [&](auto who) { return perf::work(who, o); }, {.as = e.are, .pin = o.pin});
    });
    return status;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "ringlet-perf: %s\n", e.what());
    return 1;
  }
}
