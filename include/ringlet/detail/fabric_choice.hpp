// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "ringlet/error.hpp"
#include "ringlet/transport.hpp"
#include "ringlet/transport/fabric_library.hpp"
#include "ringlet/transport/segment.hpp"

namespace ringlet::detail {

// What all ranks have, as this one has it, and an address of this host at which others can reach it.
struct fabric_choice {
  fabric_library const* library;
  fabric_library::offer offer;
  fi_info const* info;
  std::string interface;
  sockaddr_storage address;
  sockaddr const* own() const { return reinterpret_cast<sockaddr const*>(&address); }
};

// Exchanges what f makes. When it throws on any rank, every rank throws.
template <meeting M, class F>
std::vector<std::string> fabric_exchange(M& m, char const* name, time_point until, F&& f) {
  std::optional<error> own;
  std::string mine;
  try {
    mine = '+' + f();
  } catch (error const& e) {
    own = e;
    mine = std::to_string(static_cast<int>(e.why())) + e.words();
    mine.resize(std::min<std::size_t>(mine.size(), 250));
  }
  auto all = m.exchange(name, mine, until);
  if (own) throw *own;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].substr(0, 1) != "+")
      throw error(static_cast<errc>(std::atoi(all[r].substr(0, 1).c_str())),
                  "rank " + std::to_string(r) + ": " + all[r].substr(std::min<std::size_t>(1, all[r].size())),
                  static_cast<int>(r));
    all[r].erase(0, 1);
  }
  return all;
}

template <meeting M, class Settings>
fabric_choice choose_fabric(M& m, Settings const& s, time_point until) {
  s.check();
  fabric_choice c{nullptr, {}, nullptr, {}, {}};
  auto const offers = fabric_exchange(m, "fabric/offer", until, [&] {
    c.library = &fabric_library::open(s.library);
    c.offer = c.library->find({s.provider, s.interface, s.domain});
    std::string kinds;
    for (auto const& one : c.offer.choices)
      if (std::string const line = one.kind() + '\n'; kinds.find(line) == std::string::npos) kinds += line;
    return kinds.substr(0, kinds.rfind('\n', 240) + 1);
  });
  auto const everyone_has = [&](std::string const& kind) {
    return std::all_of(offers.begin(), offers.end(),
                       [&](std::string const& o) { return ('\n' + o).find('\n' + kind + '\n') != std::string::npos; });
  };
  std::string kind;  // the best of rank 0's that all have
  for (std::size_t at = 0; kind.empty() && at < offers[0].size();) {
    std::size_t const end = offers[0].find('\n', at);
    if (everyone_has(offers[0].substr(at, end - at))) kind = offers[0].substr(at, end - at);
    at = end + 1;
  }
  if (kind.empty()) {
    std::string text = "ranks have no provider in common";
    for (std::size_t r = 0; r < offers.size(); ++r) {
      std::string its = offers[r].substr(0, offers[r].size() - 1);
      std::replace(its.begin(), its.end(), '\n', ' ');
      text += (r == 0 ? ": rank " : ", rank ") + std::to_string(r) + " has " + its;
    }
    throw error(errc::mismatch, text + " (provider/format of addresses); see the settings");
  }
  for (auto const& one : c.offer.choices)
    if (c.info == nullptr && one.kind() == kind) c.info = one.info, c.interface = one.interface;
  if (!c.interface.empty()) {
    std::memcpy(&c.address, c.info->src_addr, std::min(c.info->src_addrlen, sizeof c.address));
  } else {  // its addresses are its own, but the control connections need one of an interface
    for (bool last_resort : {false, true})
      for_each_interface([&](std::string const& name, sockaddr const* a) {
        if (c.address.ss_family != 0) return true;
        if (name_filter(s.interface).takes(name) && for_one_host(name) == last_resort)
          std::memcpy(&c.address, a, a->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
        return false;
      });
  }
  return c;
}

// Whether more ranks than processors are on this host.
template <meeting M>
bool outnumber_processors(M& m, time_point until) {
  std::string host;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), host);
  host.resize(36);
  auto const all = m.exchange("fabric/processors", host + affinity_text(), until);
  std::vector<std::string> here;
  for (std::string const& text : all)
    if (text.substr(0, host.size()) == host) here.push_back(text.substr(host.size()));
  return here.size() > processors(here);
}

}  // namespace ringlet::detail
