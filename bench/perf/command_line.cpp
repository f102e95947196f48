// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "collector.hpp"
#include "elements.hpp"

namespace perf {

std::optional<int> parse(int argc, char** argv, options& o) {
  CLI::App app(
      "Times a collective of ringlet and checks every element of its results.\n"
      "Started by torchrun, mpirun, mpiexec or srun, their processes are the ranks; else it starts ranks itself.\n"
      "Exit status: 0 all right, 1 wrong elements or a failure, 2 wrong arguments.",
      "ringlet-perf");
  app.get_formatter()->column_width(38);
  std::vector<std::string> types{"all"}, names;
  for (element_entry const& e : elements) types.emplace_back(e.name);
  std::apply([&](auto const&... e) { (names.emplace_back(e.name), ...); }, transports);
  names.emplace_back("cuda_ipc");

  app.add_option("collective", o.collective, "What to time")
      ->required()
      ->check(CLI::IsMember({"all_reduce", "reduce_scatter", "all_gather", "barrier"}));
  app.add_option_function<std::string>(
         "--beside", [&](std::string const&) { o.collector = true; },
         "What to measure as well, at each size: the obvious all_reduce, in which rank 0 gathers, sums and sends back")
      ->check(CLI::IsMember({"collector"}));
  app.add_option("--transport", o.transport, "Over what")->check(CLI::IsMember(names))->capture_default_str();
  app.add_option("--ranks", o.ranks, "How many to start, without a launcher")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("-b,--minbytes", o.least, "Smallest size of the whole buffer; K, M, G are powers of 1024")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("-e,--maxbytes", o.most, "Largest size")->transform(CLI::AsSizeValue(false))->capture_default_str();
  auto* const factor = app.add_option("-f,--stepfactor", o.factor, "From one size to the next: times this")
                           ->check(CLI::Range(2, 1 << 30))
                           ->capture_default_str();
  auto* const step =
      app.add_option("-i,--stepbytes", o.step, "From one size to the next: so many bytes more; without -f")
          ->transform(CLI::AsSizeValue(false))
          ->check(CLI::PositiveNumber)
          ->excludes(factor);
  app.add_option("-n,--iters", o.iterations, "Calls that are timed")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  app.add_option("-w,--warmup_iters", o.warm_up, "Calls before them, at each size")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("-c,--check", o.checks, "Calls after them whose results are checked")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("-d,--datatype", o.type, "Elements")->check(CLI::IsMember(types))->capture_default_str();
  app.add_option("-o,--op", o.op, "Operator")
      ->check(CLI::IsMember({"sum", "prod", "min", "max", "avg", "all"}))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--memory", [&](std::string const& s) { o.allocated = s == "allocated"; },
         "Buffers: ordinary memory, or allocated by the communicator")
      ->check(CLI::IsMember({"ordinary", "allocated"}))
      ->default_str("ordinary");
  app.add_flag("--emulated", o.emulated,
               "With cuda_ipc: the host plays the devices; shows that it works, and says nothing of speed");
  app.add_flag("--pin", o.pin, "Bind each rank to a processor, without a launcher");
  auto const bytes = [&](char const* name, std::optional<std::size_t>& to, char const* what) {
    app.add_option(name, to, what)->transform(CLI::AsSizeValue(false));
  };
  app.add_option("--slots", o.slots, "Slices that a queue holds");
  bytes("--slot-bytes", o.slot_bytes, "Bytes of a slice");
  bytes("--board-bytes", o.board_bytes, "Bytes of a board, which holds a rank's input in one shot");
  bytes("--stage-bytes", o.stage_bytes, "Bytes by which others reach what is in ordinary memory");
  app.add_option("--lanes", o.lanes, "Parallel rings");
  app.add_option("--provider", o.provider, "libfabric's providers to choose from: net,tcp or =tcp or ^tcp");
  app.add_option("--interface", o.interface, "Network interfaces to choose from, likewise: eth or =eth0 or ^docker,lo");
#if __has_include(<rdma/fabric.h>) && !defined(__CUDACC__)
  app.add_option("--host-ranks", real_or_made_up_hosts::ranks_on_each,
                 "With mixed: as if so many ranks that follow each other shared a host; 0: as it is")
      ->check(CLI::NonNegativeNumber);
#endif
  app.add_option("-T,--timeout", o.timeout, "Seconds that a rank waits for its peers")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  // Better known before a long run than after it.
  CLI::Validator const writable(
      [](std::string& file) { return std::ofstream(file, std::ios::app) ? "" : "cannot write " + file; }, "FILE");
  app.add_option("--tuning", o.tuning, "File that --tune has written: which sizes take which route")
      ->check(CLI::ExistingFile);
  app.add_flag("--explain", o.explain, "Only say which route each size takes, and why");
  app.add_option("--tune", o.tune, "File for the routes that are fastest here with so many ranks; takes a minute")
      ->check(writable);
  app.add_option("--json", o.json, "File for the results as JSON")->check(writable);
  app.add_option("--svg", o.svg, "File for a plot of bus bandwidth over size")->check(writable);
  app.set_version_flag("--version", "ringlet " + version());
  try {
    app.parse(argc, argv);
    if (step->count() > 0) o.factor = 1;
    if (o.least > o.most)
      throw CLI::ValidationError("-b", "the smallest size, " + std::to_string(o.least) + ", is above the largest, " +
                                           std::to_string(o.most) + " (-e)");
    if (o.most > std::size_t{1} << 48) throw CLI::ValidationError("-e", "more than any machine has");
    if (o.least == 0 && o.factor > 1) throw CLI::ValidationError("-b", "0 times -f stays 0: step with -i");
    for (element_entry const& e : elements)
      if (o.type == e.name && !e.builds(o))
        throw CLI::ValidationError("-o", o.collective + " of " + o.type + " is built without " + o.op +
                                             "; to have it, add it to `built` in bench/perf/operators.hpp");
#if __has_include(<rdma/fabric.h>) && !defined(__CUDACC__)
    if (real_or_made_up_hosts::ranks_on_each != 0 && o.transport != "mixed")
      throw CLI::ValidationError("--host-ranks", "is for --transport mixed");
#endif
    if (o.emulated && o.transport != "cuda_ipc")
      throw CLI::ValidationError("--emulated", "is for --transport cuda_ipc");
    if (o.emulated) o.transport = emulated_devices;
    bool const on_devices = o.transport.starts_with("cuda_ipc");
    if (on_devices && (o.type != "float" || (o.op != "sum" && o.collective != "all_gather")))
      throw CLI::ValidationError("-d, -o",
                                 "on devices sums of float are built; for more, see built_for_devices in "
                                 "bench/perf/operators.hpp");
    bool found = false;
    with_transport(o, [&](auto const&) { found = true; });
    if (!found)
      throw CLI::ValidationError(
          "--transport",
          "cuda_ipc is in the ringlet-perf that nvcc builds (ringlet-perf-cuda), --emulated in the other one");
    if (!o.tune.empty() && (o.transport != "shared_memory" || o.collective != "all_reduce"))
      throw CLI::ValidationError("--tune", "is for all_reduce over shared_memory");
    if (!o.tune.empty() && o.most < (std::size_t{128} << 10))
      throw CLI::ValidationError("--tune", "needs sizes of 128K at least (-e)");
    if (o.explain && o.collective == "barrier") throw CLI::ValidationError("--explain", "a barrier has no sizes");
    with_transport(o, [&]<class X>(entry<X> const&) {
      if (o.collector && (!ringlet::pairwise<X> || o.collective != "all_reduce" || o.type != "float" || o.op != "sum"))
        throw CLI::ValidationError("--beside",
                                   "a collector is built beside all_reduce, for sums of float, over transports "
                                   "with links between any two ranks: see bench/perf/collector.hpp");
      settings_for<X>(o);
    });
  } catch (CLI::ParseError const& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (ringlet::error const& e) {
    std::fprintf(stderr, "ringlet-perf: %s\n", e.what());
    return 2;
  }
  return std::nullopt;
}

}  // namespace perf
