// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "collector.hpp"
#include "elements.hpp"
#include "plot.hpp"
#include "ringlet/tuning_file.hpp"
#include "settings.hpp"

namespace perf {
namespace {

constexpr std::size_t most_bytes = std::size_t{1} << 48;  // more than any machine has

// In words, which CLI11's own ranges are not: they print numbers of 300 digits, and let nan pass.
template <class Number>
CLI::Validator from_to(Number least, Number most, char const* what = "a number") {
  std::ostringstream words;
  words << what << " from " << least << " to " << most;
  return {[=, range = words.str()](std::string& given) {
            Number n{};
            bool const well = CLI::detail::lexical_cast(given, n) && n >= least && n <= most;
            return well ? std::string() : given + " was given: give " + range;
          },
          ""};
}

template <class Setting>
std::string transports_with(Setting const&) {
  std::string names;
  auto const add = [&]<class X>(entry<X> const& e) {
    if (Setting::template is_of<X>) names += (names.empty() ? "" : ", ") + std::string(e.name);
  };
  std::apply([&](auto const&... e) { (add(e), ...); }, transports);
  return names;
}

// Bytes of memory that can still be had; no limit where the system does not say.
double available_memory() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("MemAvailable:")) return 1024 * std::strtod(line.c_str() + 13, nullptr);
  return HUGE_VAL;
}

}  // namespace

std::string memory_words(options const& o, int ranks) {
  return "buffers take " + size_text(o.buffers()) + " a rank, " + size_text(ranks * o.buffers()) + " for " +
         std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") + ", and this machine has " +
         size_text(available_memory()) + " of memory available: give a smaller size (-e), or fewer ranks";
}

std::optional<int> parse(int argc, char** argv, ringlet::launch_environment const& where, options& o) {
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
      ->check(CLI::IsMember({"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "barrier"}));
  app.add_option_function<std::string>(
         "--beside", [&](std::string const&) { o.collector = true; },
         "What to measure as well, at each size: the obvious all_reduce, in which rank 0 gathers, sums and sends back")
      ->check(CLI::IsMember({"collector"}));
  app.add_option("--transport", o.transport, "Over what")->check(CLI::IsMember(names))->capture_default_str();
  app.add_option("--ranks", o.ranks, "How many to start, without a launcher")
      ->check(from_to(1, 4096))
      ->capture_default_str();
  auto const bytes = [&](char const* name, std::size_t& to, std::size_t least, char const* what) {
    return app.add_option(name, to, what)
        ->transform(CLI::AsSizeValue(false))
        ->check(from_to(least, most_bytes, "bytes"));
  };
  bytes("-b,--minbytes", o.least, 0, "Smallest size of the whole buffer; K, M, G are powers of 1024")
      ->capture_default_str();
  bytes("-e,--maxbytes", o.most, 0, "Largest size")->capture_default_str();
  auto* const factor = app.add_option("-f,--stepfactor", o.factor, "From one size to the next: times this")
                           ->check(from_to(2, 1 << 30))
                           ->capture_default_str();
  auto* const step =
      bytes("-i,--stepbytes", o.step, 1, "From one size to the next: so many bytes more; without -f")->excludes(factor);
  app.add_option("-n,--iters", o.iterations, "Calls that are timed")->check(from_to(1, 1 << 30))->capture_default_str();
  app.add_option("-w,--warmup_iters", o.warm_up, "Calls before them, at each size")
      ->check(from_to(0, 1 << 30))
      ->capture_default_str();
  app.add_option("-c,--check", o.checks, "Calls after them whose results are checked")
      ->check(from_to(0, 1 << 30))
      ->capture_default_str();
  app.add_option("-d,--datatype", o.type, "Elements")->check(CLI::IsMember(types))->capture_default_str();
  auto* const op = app.add_option("-o,--op", o.op, "Operator")
                       ->check(CLI::IsMember({"sum", "prod", "min", "max", "avg", "all"}))
                       ->capture_default_str();
  app.add_option("-r,--root", o.root, "Of broadcast and reduce: 0 unless given; -1: each rank in turn");
  app.add_option_function<std::string>(
         "--memory", [&](std::string const& s) { o.allocated = s == "allocated"; },
         "Buffers: ordinary memory, or allocated by the communicator")
      ->check(CLI::IsMember({"ordinary", "allocated"}))
      ->default_str("ordinary");
  app.add_flag("--emulated", o.emulated,
               "With cuda_ipc: the host plays the devices; shows that it works, and says nothing of speed");
  app.add_flag("--pin", o.pin, "Bind each rank to a processor, without a launcher");
  auto const add_setting = [&](auto const& s) {
    auto* const added = app.add_option(s.name, o.*s.given, s.what);
    if constexpr (std::is_same_v<std::remove_reference_t<decltype(o.*s.given)>, decltype(o.slots)>) {
      if (std::string_view(s.name).ends_with("-bytes")) added->transform(CLI::AsSizeValue(false));
      added->check(from_to(std::size_t{0}, most_bytes));
    }
  };
  std::apply([&](auto const&... s) { (add_setting(s), ...); }, settings);
#if defined(WITH_FABRIC)
  app.add_option("--host-ranks", real_or_made_up_hosts::ranks_on_each,
                 "With mixed: as if so many ranks that follow each other shared a host; 0: as it is")
      ->check(from_to(0, 4096));
#endif
  app.add_option("-T,--timeout", o.timeout, "Seconds that a rank waits for its peers")
      ->check(from_to(0.001, 86400.0, "seconds"))
      ->capture_default_str();
  // Better known before a long run than after it.
  CLI::Validator const writable(
      [](std::string& file) {
        bool const is_new = !exists(std::filesystem::symlink_status(file)), opens{std::ofstream(file, std::ios::app)};
        if (is_new) std::remove(file.c_str());
        return opens ? "" : "cannot write " + file;
      },
      "FILE");
  std::string tuning;
  app.add_option("--tuning", tuning, "File that --tune has written: which sizes take which route")
      ->check(CLI::ExistingFile);
  auto* const explain = app.add_flag("--explain", o.explain, "Only say which route each size takes, and why");
  app.add_option("--tune", o.tune, "File for the routes that are fastest here with so many ranks; takes a minute")
      ->check(writable);
  app.add_option("--json", o.json, "File for the results as JSON")->check(writable)->excludes(explain);
  app.add_option("--svg", o.svg, "File for a plot of bus bandwidth over size")->check(writable)->excludes(explain);
  app.set_version_flag("--version", "ringlet " + version());
  try {
    app.parse(argc, argv);
    if (step->count() > 0) o.factor = 1;
    if (where.launcher != "none") o.ranks = where.size;
    if (o.least > o.most)
      throw CLI::ValidationError("-b", "the smallest size, " + std::to_string(o.least) + ", is above the largest, " +
                                           std::to_string(o.most) + " (-e)");
    if (o.least == 0 && o.factor > 1) throw CLI::ValidationError("-b", "0 times -f stays 0: step with -i");
    for (element_entry const& e : elements)
      if (o.type == e.name && !e.builds(o))
        throw CLI::ValidationError("-o", o.collective + " of " + o.type + " is built without " + o.op +
                                             "; to have it, add it to `built` in bench/perf/operators.hpp");
#if defined(WITH_FABRIC)
    if (real_or_made_up_hosts::ranks_on_each != 0 && o.transport != "mixed")
      throw CLI::ValidationError("--host-ranks", "is for --transport mixed");
#endif
    if (o.emulated && o.transport != "cuda_ipc")
      throw CLI::ValidationError("--emulated", "is for --transport cuda_ipc");
    if (o.emulated) o.transport = emulated_devices;
    bool const on_devices = o.transport.starts_with("cuda_ipc");
    if (on_devices && (o.collective == "broadcast" || o.collective == "reduce"))
      throw CLI::ValidationError("collective",
                                 o.collective + " is not for streams of devices: choose another transport");
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
    if (op->count() > 0 &&
        !(o.collective == "all_reduce" || o.collective == "reduce_scatter" || o.collective == "reduce"))
      throw CLI::ValidationError("-o", "is for all_reduce, reduce_scatter and reduce, not for " + o.collective);
    if (o.root && o.collective != "broadcast" && o.collective != "reduce")
      throw CLI::ValidationError("--root", "is for broadcast and reduce");
    if (o.root && (*o.root < -1 || *o.root >= o.ranks))
      throw CLI::ValidationError(
          "--root", std::to_string(*o.root) + " was given: give a number from -1 to " + std::to_string(o.ranks - 1));
    with_transport(o, [&]<class X>(entry<X> const&) {
      auto const check = [&](auto const& s) {
        if (o.*s.given && !std::decay_t<decltype(s)>::template is_of<X>)
          throw CLI::ValidationError(s.name, "is for --transport " + transports_with(s) + ", not for " + o.transport);
      };
      std::apply([&](auto const&... s) { (check(s), ...); }, settings);
      if (!tuning.empty() && (has_devices<X> || !ringlet::mapped_peers<X, float>))
        throw CLI::ValidationError("--tuning", "is for transports whose ranks share memory, not for " + o.transport);
      if (o.collector && (!ringlet::pairwise<X> || o.collective != "all_reduce" || o.type != "float" || o.op != "sum"))
        throw CLI::ValidationError("--beside",
                                   "a collector is built beside all_reduce, for sums of float, over transports "
                                   "with links between any two ranks: see bench/perf/collector.hpp");
      settings_for<X>(o);
    });
    if (!tuning.empty()) o.select = ringlet::tuned_by(tuning, o.ranks);
    if (int const here = where.launcher == "none" ? o.ranks : std::max(where.local_size, 1);
        o.transport != "cuda_ipc" && here * o.buffers() > available_memory())
      throw CLI::ValidationError("-e", memory_words(o, here));
  } catch (CLI::ParseError const& e) {
    std::ostream nowhere(nullptr);
    bool const speaks = where.local_rank <= 0;
    return app.exit(e, speaks ? std::cout : nowhere, speaks ? std::cerr : nowhere) == 0 ? 0 : 2;
  } catch (ringlet::error const& e) {
    if (where.local_rank <= 0) std::cerr << "ringlet-perf: " << e.what() << '\n';
    return 2;
  }
  return std::nullopt;
}

}  // namespace perf
