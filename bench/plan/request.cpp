// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "request.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace planner {
namespace {

using nlohmann::json;
using namespace ringlet::planning;

[[noreturn]] void refuse(std::string const& words) { throw ringlet::error(ringlet::errc::invalid_argument, words); }

// A file and its text, to say where in it something stands.
struct document {
  std::string name, text;
  // The first line that holds a key at or after `from`; keys of one name stand in the order of their objects.
  [[noreturn]] void refuse_at(std::string const& key, std::string const& words, std::size_t from = 0) const {
    auto const at = std::min(text.find('"' + key + '"', from), text.size());
    auto const line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    refuse(name + ", line " + std::to_string(line) + ": " + words);
  }
};

using setters = std::map<std::string, std::function<void(json const&)>>;

// Takes every key of an object to what it sets.
void take(document const& d, json const& object, std::string const& what, setters const& known, std::size_t from = 0) {
  if (!object.is_object()) d.refuse_at(what, what + " is " + object.type_name() + ", not an object", from);
  for (auto const& [key, value] : object.items()) {
    auto const found = known.find(key);
    if (found == known.end()) {
      std::string names;
      for (auto const& [name, set] : known) names += (names.empty() ? "" : ", ") + name;
      d.refuse_at(key, "there is no " + key + " in " + what + "; there are " + names, from);
    }
    try {
      found->second(value);
    } catch (json::exception const&) {
      d.refuse_at(key, key + " cannot be " + value.dump(), from);
    } catch (ringlet::error const& e) {
      if (e.words().rfind(d.name, 0) == 0) throw;  // it says where
      d.refuse_at(key, key + ": " + e.words(), from);
    }
  }
}
auto number(double& to, double unit = 1) {
  return [&to, unit](json const& v) {
    if (!v.is_number()) refuse(v.dump() + " is not a number");
    to = v.get<double>() * unit;
  };
}
auto number(int& to) {
  return [&to](json const& v) {
    if (!v.is_number() || v.get<double>() != static_cast<int>(v.get<double>()))
      refuse(v.dump() + " is not a whole number");
    to = v.get<int>();
  };
}

device_link link_from(std::string const& text) {
  std::vector<std::string> parts;
  for (std::size_t from = 0, to = 0; to != std::string::npos; from = to + 1) {
    to = text.find(':', from);
    parts.push_back(text.substr(from, to == std::string::npos ? to : to - from));
  }
  auto const wrong = [&] { refuse("link " + text + " is not NAME:GB/s:MICROSECONDS:DEVICES, such as node:400:1.5:8"); };
  if (parts.size() != 4) wrong();
  double rate = 0, latency = 0;
  int devices = 0;
  if (!CLI::detail::lexical_cast(parts[1], rate) || !CLI::detail::lexical_cast(parts[2], latency) ||
      !CLI::detail::lexical_cast(parts[3], devices))
    wrong();
  return {parts[0], rate * 1e9, latency * 1e-6, devices};
}

}  // namespace

axis axis_named(std::string const& name) {
  for (std::size_t a = 0; a < axis_count; ++a)
    if (name == to_string(static_cast<axis>(a))) return static_cast<axis>(a);
  refuse("there is no axis " + name + "; there are tensor, state, pipeline and data");
}

void put_on(request& r, axis a, std::string const& link) {
  std::string names;
  for (std::size_t i = 0; i < r.machines.links.size(); ++i) {
    if (r.machines.links[i].name == link) {
      r.on[static_cast<std::size_t>(a)] = i;
      return;
    }
    names += (i == 0 ? "" : ", ") + r.machines.links[i].name;
  }
  refuse("there is no link " + link + "; there are " + names);
}

void read(std::string const& file, request& r) {
  std::ifstream in(file);
  document d{file, {std::istreambuf_iterator<char>(in), {}}};
  if (!in) refuse("cannot read " + file);
  json all;
  try {
    all = json::parse(d.text);
  } catch (json::parse_error const& e) {  // "[json.exception.parse_error.101] parse error at line 3, column 5: ..."
    std::string const words = e.what();
    refuse(file + ": " + words.substr(std::min(words.find("parse error at"), words.size())));
  }
  setters by, on;
  for (std::size_t i = 0; i < axis_count; ++i) {
    auto const a = static_cast<axis>(i);
    by[to_string(a)] = [&r, a](json const& v) { number(degrees_of(r)[a])(v); };
    on[to_string(a)] = [&r, a](json const& v) { put_on(r, a, v.get<std::string>()); };
  }
  auto const links = [&](json const& list) {
    r.machines.links.clear();
    std::size_t at = d.text.find("\"links\"");
    for (json const& one : list) {
      device_link l;
      at = d.text.find('{', at);
      take(d, one, "links",
           {{"name", [&](json const& v) { l.name = v.get<std::string>(); }},
            {"gb_per_s", number(l.bandwidth, 1e9)},
            {"latency_us", number(l.latency, 1e-6)},
            {"devices", number(l.devices)}},
           at);
      at = d.text.find('}', at);
      r.machines.links.push_back(l);
    }
  };
  auto const part = [&](char const* name, setters known) {
    return [&d, name, known = std::move(known)](json const& v) {
      take(d, v, name, known, std::min(d.text.find('"' + std::string(name) + '"'), d.text.size()));
    };
  };
  setters const parts{
      {"model", part("model", {{"parameters", number(r.model.parameters)},
                               {"layers", number(r.model.layers)},
                               {"hidden", number(r.model.hidden)},
                               {"blocks", number(r.model.blocks)}})},
      {"training", part("training", {{"sequence", number(r.model.sequence)},
                                     {"batch", number(r.model.batch)},
                                     {"microbatch", number(r.model.microbatch)},
                                     {"bytes", number(r.model.bytes)},
                                     {"optimizer", number(r.model.optimizer)},
                                     {"buckets", number(r.model.buckets)},
                                     {"prefetch", [&](json const& v) { r.model.prefetch = v.get<bool>(); }}})},
      {"cluster", part("cluster", {{"devices", number(r.devices)},
                                   {"tflops", number(r.machines.flops, 1e12)},
                                   {"memory_gb", number(r.machines.memory, 1e9)},
                                   {"links", links}})},
      {"degrees", part("degrees", by)},
  };
  if (!all.is_object()) refuse(file + ", line 1: there is " + all.type_name() + ", not an object");
  json const told = all.value("on", json::object());  // last, for it names links
  all.erase("on");
  take(d, all, "the file", parts);
  part("on", on)(told);
}

std::optional<int> parse(int argc, char** argv, request& r) {
  CLI::App app(
      "Says which way of dividing a training run can live with which link of a cluster: what each of tensor, state,\n"
      "pipeline and data sends in a step, how long that takes on each link, what hides behind computation, how long\n"
      "stages stand idle, what a device must hold, and where each degree has its ceiling. Without degrees, it looks "
      "for\n"
      "those with the shortest step.",
      "ringlet-plan");
  app.footer(
      "Examples:\n"
      "  ringlet-plan --devices 1024                                  the best degrees for the defaults\n"
      "  ringlet-plan --tensor 8 --pipeline 4 --state 4 --data 8      these degrees\n"
      "  ringlet-plan --link node:900:1:8 --link rack:50:3:4096       another cluster\n"
      "  ringlet-plan --tensor 8 --data 8 --on tensor=network         what if\n"
      "  ringlet-plan run.json --svg timeline.svg                     all from a file, and a picture\n"
      "A file looks like this, and may leave out what has a default; arguments win:\n"
      "  {\"model\": {\"parameters\": 7e10, \"layers\": 80, \"hidden\": 8192, \"blocks\": 2},\n"
      "   \"training\": {\"sequence\": 4096, \"batch\": 1024, \"microbatch\": 1, \"prefetch\": true},\n"
      "   \"cluster\": {\"devices\": 1024, \"tflops\": 400, \"memory_gb\": 80,\n"
      "               \"links\": [{\"name\": \"node\", \"gb_per_s\": 400, \"latency_us\": 1.5, \"devices\": 8},\n"
      "                         {\"name\": \"network\", \"gb_per_s\": 25, \"latency_us\": 5, \"devices\": 16384}]},\n"
      "   \"degrees\": {\"tensor\": 8, \"state\": 4, \"pipeline\": 4, \"data\": 8}, \"on\": {\"tensor\": \"node\"}}\n"
      "Exit status: 0 all right, 2 wrong arguments.");
  app.get_formatter()->column_width(34);
  std::string file;
  double tflops = 0, memory = 0;
  std::vector<std::string> links, on;
  std::array<int, axis_count> by{};
  app.add_option("file", file, "JSON file with the run")->check(CLI::ExistingFile);
  auto const option = [&](char const* name, auto& to, char const* what) { return app.add_option(name, to, what); };
  option("--parameters", r.model.parameters, "Of the model")->capture_default_str();
  option("--layers", r.model.layers, "Of the model")->capture_default_str();
  option("--hidden", r.model.hidden, "Values of a token between layers")->capture_default_str();
  option("--blocks", r.model.blocks, "Of a layer: a column cut chained into a row cut each")->capture_default_str();
  option("--sequence", r.model.sequence, "Tokens of a sequence")->capture_default_str();
  option("--batch", r.model.batch, "Sequences of a step, over all devices")->capture_default_str();
  option("--microbatch", r.model.microbatch, "Sequences at once")->capture_default_str();
  option("--bytes", r.model.bytes, "Of an activation, a weight, a gradient")->capture_default_str();
  option("--optimizer", r.model.optimizer, "Bytes of optimizer state a parameter")->capture_default_str();
  option("--buckets", r.model.buckets, "Messages for the gradients; 0: one a layer")->capture_default_str();
  app.add_flag("--prefetch,!--no-prefetch", r.model.prefetch, "Whether weights are gathered a layer ahead");
  option("--devices", r.devices, "Where degrees are searched for")->capture_default_str();
  auto* const flops = option("--tflops", tflops, "10^12 operations a second that a device really does [400]");
  auto* const bytes = option("--memory", memory, "GB of a device [80]");
  option("--link", links, "NAME:GB/s:MICROSECONDS:DEVICES that reach each other; again for the next one");
  for (std::size_t a = 0; a < axis_count; ++a)
    option((std::string("--") + to_string(static_cast<axis>(a))).c_str(), by[a], "Degree");
  option("--on", on, "AXIS=LINK: the link that an axis is to take; may be given again");
  option("--tolerated", r.tolerated, "Share of computation that an axis may add")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  CLI::Validator const writable(
      [](std::string& name) { return std::ofstream(name, std::ios::app) ? "" : "cannot write " + name; }, "FILE");
  option("--json", r.json, "File for the plan as JSON")->check(writable);
  option("--svg", r.svg, "File for the timeline of a step")->check(writable);
  try {
    app.parse(argc, argv);
    if (!file.empty()) {
      read(file, r);
      app.parse(argc, argv);  // what stands there is more than what stands in the file
    }
    if (flops->count() > 0) r.machines.flops = tflops * 1e12;
    if (bytes->count() > 0) r.machines.memory = memory * 1e9;
    if (!links.empty()) r.machines.links.clear();
    for (std::string const& l : links) r.machines.links.push_back(link_from(l));
    for (std::size_t a = 0; a < axis_count; ++a)
      if (app.get_option(std::string("--") + to_string(static_cast<axis>(a)))->count() > 0) degrees_of(r).of[a] = by[a];
    for (std::string const& o : on) {
      std::size_t const equals = std::min(o.find('='), o.size());
      if (equals == o.size()) refuse("--on " + o + " is not AXIS=LINK, such as tensor=node");
      put_on(r, axis_named(o.substr(0, equals)), o.substr(equals + 1));
    }
    check(r.model, r.machines);
  } catch (CLI::ParseError const& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

}  // namespace planner
