// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/fabric_library.hpp"

#include <doctest/doctest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "../../ranks.hpp"

using namespace tests;
using ringlet::fabric_library;
using ringlet::name_filter;

namespace {
std::vector<std::string> providers(fabric_library::wish const& w) {
  std::vector<std::string> names;
  auto const& library = fabric_library::open("libfabric.so.1");
  auto const found = library.find(w);
  for (auto const& c : found.choices)
    if (names.empty() || names.back() != c.provider()) names.push_back(c.provider());
  return names;
}
std::string refusal(fabric_library::wish const& w) {
  auto const e = error_of([&] { providers(w); });
  CHECK((e && e->why() == errc::unsupported));
  return e ? e->what() : "";
}
}  // namespace

// It must come first: what is put back is what was there before the library was loaded.
TEST_CASE("to load it takes no signal away from the program") {
  struct sigaction before[32], after[32];
  for (int s = 1; s < 32; ++s) ::sigaction(s, nullptr, &before[s]);
  fabric_library::open("libfabric.so.1");
  for (int s = 1; s < 32; ++s) {
    CAPTURE(s);
    ::sigaction(s, nullptr, &after[s]);
    CHECK((after[s].sa_handler == before[s].sa_handler));
  }
}

TEST_CASE("a filter takes and leaves names as NCCL's does") {
  struct {
    char const *filter, *name;
    bool takes;
  } const cases[] = {
      {"", "eth0", true},
      {"eth", "eth0", true},
      {"eth", "ib0", false},
      {"eth,ib", "ib0", true},
      {"=eth", "eth0", false},
      {"=eth0", "eth0", true},
      {"=eth0,ib1", "ib1", true},
      {"=eth0,ib1", "ib10", false},
      {"^docker", "docker0", false},
      {"^docker", "eth0", true},
      {"^docker,lo", "lo", false},
      {"^=lo", "lo", false},
      {"^=lo", "lo2", true},
      {"tcp;ofi_rxm", "tcp;ofi_rxm", true},
      {"tcp", "tcp;ofi_rxm", true},
      {"=tcp", "tcp;ofi_rxm", false},
      {",", "eth0", true},
  };
  for (auto const& c : cases) {
    CAPTURE(c.filter);
    CAPTURE(c.name);
    CHECK(name_filter(c.filter).takes(c.name) == c.takes);
  }
  CHECK(name_filter("eth").asks_for("eth0"));
  CHECK(!name_filter("").asks_for("eth0"));
  CHECK(!name_filter("^lo").asks_for("eth0"));
  CHECK(name_filter("=eth0").insists_on("eth0"));
  CHECK(!name_filter("eth0").insists_on("eth0"));
}

TEST_CASE("without a wish a native provider comes first, and interfaces that lead elsewhere") {
  auto const all = providers({"", "", ""});
  CHECK((all[0] != "tcp;ofi_rxm" && all[0] != "shm" && all[0] != "sockets"));
  for (auto const& name : all) CHECK((name != "udp;ofi_rxd" && name != "net;ofi_rxm" && name != "sockets"));
  auto const found = fabric_library::open("libfabric.so.1").find({"", "", ""});
  bool local = false;
  for (auto const& c : found.choices)
    if (c.provider() == all[0]) {
      if (c.interface == "lo") local = true;
      CHECK((!local || c.interface == "lo"));
    }
}

TEST_CASE("provider and interface are chosen by name") {
  CHECK(providers({"tcp;ofi_rxm", "=lo", ""}) == std::vector<std::string>{"tcp;ofi_rxm"});
  auto const found = fabric_library::open("libfabric.so.1").find({"tcp", "=lo", ""});
  for (auto const& c : found.choices) CHECK(c.interface == "lo");
}

TEST_CASE("a provider that is known to fail is used when it is named exactly, and only then") {
  CHECK(contains(refusal({"udp", "", ""}), "udp;ofi_rxd on lo (a hundred times slower"));
  CHECK(providers({"=udp;ofi_rxd", "=lo", ""}) == std::vector<std::string>{"udp;ofi_rxd"});
}

TEST_CASE("when nothing fits, the words say what was wanted, and what there is") {
  std::string const words = refusal({"efa", "=ib9", "mlx5"});
  for (char const* part : {"provider='efa'", "interface='=ib9'", "domain='mlx5'", "tcp;ofi_rxm on lo", "shm on shm",
                           "only on request", "name one of these"})
    CHECK_MESSAGE(contains(words, part), words);
}

TEST_CASE("a library that is missing, or is another one, is named") {
  auto const missing = error_of([] { fabric_library::open("libno_such_fabric.so"); });
  expect(missing, errc::unsupported, "libno_such_fabric.so");
  CHECK(contains(missing->what(), "Debian: libfabric1"));
  expect(error_of([] { fabric_library::open("libm.so.6"); }), errc::unsupported, "libm.so.6 has no fi_getinfo");
}
