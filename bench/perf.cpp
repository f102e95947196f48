// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ringlet-perf: times collectives and checks every element of their results, with nccl-tests' letters and rows.

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <numeric>
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

namespace {

std::pair<int, int> rank_and_size(any_communicator& any) {
  return std::visit([](auto& comm) { return std::pair(comm.rank(), comm.size()); }, any);
}

// What each rank says, by rank; all ranks call it. As bytes, so that one all_gather is compiled for all that is said.
template <class T>
std::vector<T> from_all(any_communicator& any, T const& mine) {
  auto const [rank, size] = rank_and_size(any);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size) * sizeof(T));
  std::memcpy(bytes.data() + static_cast<std::size_t>(rank) * sizeof(T), &mine, sizeof(T));
  gather(any, bytes);
  std::vector<T> all(static_cast<std::size_t>(size));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

}  // namespace

double largest(any_communicator& any, double mine) {
  auto const all = from_all(any, mine);
  return *std::max_element(all.begin(), all.end());
}
std::uint64_t total(any_communicator& any, std::uint64_t mine) {
  auto const all = from_all(any, mine);
  // Whatever the collectives under test make of it, this rank's own count stays.
  return std::max(mine, std::accumulate(all.begin(), all.end(), std::uint64_t{0}));
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
  auto const all = from_all(any, me);
  std::visit(
      [&](auto& comm) {
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
  auto const [rank, size] = rank_and_size(any);
  report r(rank == 0);
  introduce(any, o);
  r.header();
  if (o.collective == "barrier") {
    measure_barrier(any, o, r);
  } else {
    bool const on_devices = std::visit([]<class X>(ringlet::communicator<X>&) { return has_devices<X>; }, any);
    for (element_entry const& e : elements)
      if (o.type == e.name || o.type == "all") {
        if (o.collective == "broadcast" || (o.collective == "all_gather" && !on_devices))
          measure_moves(any, o, e.name, e.bytes, r);
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
