// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <dlfcn.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringlet/error.hpp"

namespace ringlet {

/// A choice among names, in NCCL's syntax: `eth,ib` takes what begins so, `=eth0` that name alone, `^docker,lo` all but
/// what begins so, `^=lo` all but that name. An empty one takes everything.
class name_filter {
 public:
  explicit name_filter(std::string_view text = {}) {
    auto skip = [&text](char c) {
      bool const there = !text.empty() && text[0] == c;
      text.remove_prefix(there);
      return there;
    };
    excludes_ = skip('^');
    exact_ = skip('=');
    while (!text.empty()) {
      std::size_t const end = std::min(text.find(','), text.size());
      if (end != 0) names_.emplace_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  bool takes(std::string_view name) const { return names_.empty() || found(name) != excludes_; }
  /// Whether it asks for this name, where it might have taken it among others.
  bool asks_for(std::string_view name) const { return !excludes_ && !names_.empty() && found(name); }
  /// Whether it asks for this name alone, in so many letters.
  bool insists_on(std::string_view name) const { return exact_ && asks_for(name); }

 private:
  bool found(std::string_view name) const {
    return std::any_of(names_.begin(), names_.end(), [&](std::string const& given) {
      return exact_ ? name == given : name.substr(0, given.size()) == given;
    });
  }
  bool excludes_ = false, exact_ = false;
  std::vector<std::string> names_;
};

namespace detail {

// Descriptions of endpoints that libfabric could open, as it lists them.
using fabric_infos = std::unique_ptr<fi_info, void (*)(fi_info*)>;

// Providers in the order in which they are taken when none is asked for. Native ones come before those layered on
// others.
inline constexpr char const* usual_providers[] = {"efa",  "cxi", "verbs;ofi_rxm", "opx",
                                                  "psm3", "tcp", "net",           "tcp;ofi_rxm"};
// Providers that were tried, and what came of it. They are used when they are asked for by their whole names.
struct known_fault {
  char const *provider, *why;
};
inline constexpr known_fault faulty_providers[] = {
    {"udp;ofi_rxd", "a hundred times slower, and hangs when a peer is silent for a while"},
    {"net;ofi_rxm", "does what net does, slower"},
    {"sockets", "deprecated and slow"},
    {"UDP", "has no remote writes"},
    {"sm2", "has no remote writes"},
    {"lnx", "has no remote writes"},
    {"ofi_mrail", "not fit for use"},
    {"ucx", "not tried"},
};
// Providers that open devices, by way of ibverbs, as soon as they are asked what there is. A process forked after that
// has its parent's device, with which the kernel lets it do next to nothing: transfers would wait for ever.
inline constexpr char const* providers_with_devices = "efa,verbs";

// Which interface has an address, and, for an interface, a usable address. Link-local ones are of no use to other
// hosts.
inline bool usable(sockaddr const* a) {
  if (a == nullptr) return false;
  if (a->sa_family == AF_INET) return true;
  return a->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<sockaddr_in6 const*>(a)->sin6_addr);
}
inline bool same_host(sockaddr const* a, sockaddr const* b) {
  if (a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET)
    return reinterpret_cast<sockaddr_in const*>(a)->sin_addr.s_addr ==
           reinterpret_cast<sockaddr_in const*>(b)->sin_addr.s_addr;
  return std::memcmp(&reinterpret_cast<sockaddr_in6 const*>(a)->sin6_addr,
                     &reinterpret_cast<sockaddr_in6 const*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}
// Calls f(name, address) for every usable address of this host until f is true.
template <class F>
void for_each_interface(F&& f) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return;
  for (ifaddrs const* i = all; i != nullptr; i = i->ifa_next)
    if (usable(i->ifa_addr) && f(i->ifa_name, i->ifa_addr)) break;
  ::freeifaddrs(all);
}
// Where ranks that are on one host alone would meet.
inline bool for_one_host(std::string_view interface) { return interface == "lo" || interface.substr(0, 6) == "docker"; }

}  // namespace detail

/// libfabric, loaded while running: programs start without it, too, and are not given the signal handlers that some of
/// its providers bring with them.
class fabric_library {
 public:
  /// What may be used: provider, network interface and domain (the provider's name for a device), as `name_filter`
  /// says.
  struct wish {
    std::string provider, interface, domain;
  };
  /// One endpoint that could be opened.
  struct choice {
    fi_info const* info;
    std::string interface;  ///< empty where the provider's addresses are not those of an interface

    std::string provider() const { return info->fabric_attr->prov_name; }
    std::string domain() const { return info->domain_attr->name; }
    /// What two ranks must have alike to reach each other.
    std::string kind() const { return provider() + '/' + std::to_string(info->addr_format); }
  };
  /// What was found, best first.
  struct offer {
    std::vector<choice> choices;
    std::vector<detail::fabric_infos> lists;  ///< where they stand
  };

  /// The library of this name or path, or, without one, the program itself. It stays loaded for good: its providers do
  /// not like to be unloaded.
  /// @throws error(errc::unsupported) when there is none
  static fabric_library const& open(std::string const& name) {
    static std::mutex alone;
    static std::map<std::string, std::unique_ptr<fabric_library const>> all;
    std::lock_guard const lock(alone);
    auto& one = all[name];
    if (one == nullptr) one.reset(new fabric_library(name));
    return *one;
  }
  fabric_library(fabric_library const&) = delete;

  /// What the library's error number means.
  std::string words(long number) const { return strerror_(static_cast<int>(number < 0 ? -number : number)); }
  int open_fabric(fi_fabric_attr* attributes, fid_fabric** made) const { return fabric_(attributes, made, nullptr); }

  /// All that fits a wish.
  /// @throws error(errc::unsupported) with a list of what there is, when nothing does
  offer find(wish const& w) const {
    offer found;
    std::vector<std::string> list;
    // Providers differ in what they want to be asked: first all that this transport can use, then less.
    struct question {
      std::uint64_t caps;
      fi_progress progress;
    };
    constexpr std::uint64_t least = FI_MSG | FI_RMA;
    for (question q : {question{least | FI_TAGGED, FI_PROGRESS_MANUAL}, question{least | FI_TAGGED, FI_PROGRESS_UNSPEC},
                       question{least, FI_PROGRESS_UNSPEC}, question{FI_MSG | FI_TAGGED, FI_PROGRESS_UNSPEC}}) {
      found.lists.push_back(ask(q.caps, q.progress));
      for (fi_info const* i = found.lists.back().get(); i != nullptr; i = i->next) consider(*i, w, found.choices, list);
      if (!found.choices.empty()) break;
    }
    if (found.choices.empty()) throw error(errc::unsupported, nothing_fits(w, list));
    std::stable_sort(found.choices.begin(), found.choices.end(),
                     [](choice const& a, choice const& b) { return rank(a) < rank(b); });
    return found;
  }

 private:
  explicit fabric_library(std::string const& name) {
    signals const before;
    void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr)
      throw error(errc::unsupported, std::string("no libfabric: ") + ::dlerror() +
                                         "; install it (Debian: libfabric1), or give settings::library its path");
    auto const get = [&](auto*& f, char const* symbol) {
      f = reinterpret_cast<std::remove_reference_t<decltype(f)>>(::dlsym(handle, symbol));
      if (f == nullptr) throw error(errc::unsupported, name + " has no " + symbol + ": it is not libfabric");
    };
    get(getinfo_, "fi_getinfo");
    get(freeinfo_, "fi_freeinfo");
    get(dupinfo_, "fi_dupinfo");
    get(fabric_, "fi_fabric");
    get(strerror_, "fi_strerror");
    get(version_, "fi_version");
    detail::fabric_infos(nullptr, freeinfo_) = ask(FI_MSG, FI_PROGRESS_UNSPEC);  // loads the providers
  }

  // Puts back what signals did before: libraries of some providers take SIGSEGV, SIGTERM and others for themselves.
  class signals {
   public:
    signals() {
      for (int s = 1; s < count; ++s) known_[s] = ::sigaction(s, nullptr, &was_[s]) == 0;
    }
    ~signals() {
      for (int s = 1; s < count; ++s)
        if (known_[s] && s != SIGKILL && s != SIGSTOP) ::sigaction(s, &was_[s], nullptr);
    }

   private:
    static constexpr int count = 32;
    struct sigaction was_[count];
    bool known_[count] = {};
  };

  detail::fabric_infos ask(std::uint64_t caps, fi_progress progress) const {
    detail::fabric_infos hints(dupinfo_(nullptr), freeinfo_), none(nullptr, freeinfo_);
    if (hints == nullptr) return none;
    hints->caps = caps;
    hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = hints->domain_attr->data_progress = progress;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->av_type = FI_AV_TABLE;
    hints->domain_attr->cq_data_size = (caps & FI_RMA) != 0 ? 4 : 0;
    // A library older than these headers refuses their version, a newer one knows it.
    std::uint32_t const version = std::min<std::uint32_t>(version_(), FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION));
    fi_info* found = nullptr;
    int const failed = getinfo_(version, nullptr, nullptr, 0, hints.get(), &found);
    return failed != 0 ? std::move(none) : detail::fabric_infos(found, freeinfo_);
  }

  static std::string interface_of(fi_info const& i) {
    std::string name;
    auto const* const own = static_cast<sockaddr const*>(i.src_addr);
    if (own != nullptr && (own->sa_family == AF_INET || own->sa_family == AF_INET6) &&
        (i.addr_format == FI_SOCKADDR || i.addr_format == FI_SOCKADDR_IN || i.addr_format == FI_SOCKADDR_IN6))
      detail::for_each_interface([&](char const* candidate, sockaddr const* a) {
        if (!detail::same_host(own, a)) return false;
        name = candidate;
        return true;
      });
    return name;
  }
  void consider(fi_info const& i, wish const& w, std::vector<choice>& fits, std::vector<std::string>& list) const {
    bool const has_addresses =
        i.addr_format == FI_SOCKADDR || i.addr_format == FI_SOCKADDR_IN || i.addr_format == FI_SOCKADDR_IN6;
    choice const c{&i, interface_of(i)};
    if (has_addresses && c.interface.empty()) return;  // link-local
    name_filter const providers(w.provider);
    std::string const name = c.provider();
    std::string refused;
    for (auto const& known : detail::faulty_providers)
      if (name == known.provider && !providers.insists_on(name)) refused = known.why;
    bool const usual = order(name) < std::size(detail::usual_providers);
    if (refused.empty() && !usual && !providers.asks_for(name)) refused = "only on request";
    if (::getpid() != process_ && name_filter(detail::providers_with_devices).takes(name))
      refused = "not in a process that was forked after libfabric was loaded";
    std::string line = name + " on " + (c.interface.empty() ? c.domain() : c.interface);
    if (!refused.empty()) line += " (" + refused + ")";
    if (std::find(list.begin(), list.end(), line) == list.end()) list.push_back(line);
    if (!refused.empty() || !providers.takes(name) || !name_filter(w.domain).takes(c.domain())) return;
    if (has_addresses && !name_filter(w.interface).takes(c.interface)) return;
    fits.push_back(c);
  }
  static std::size_t order(std::string const& provider) {
    auto const& all = detail::usual_providers;
    return static_cast<std::size_t>(std::find(std::begin(all), std::end(all), provider) - std::begin(all));
  }
  static std::pair<std::size_t, bool> rank(choice const& c) {
    return {order(c.provider()), detail::for_one_host(c.interface)};
  }
  std::string nothing_fits(wish const& w, std::vector<std::string> const& list) const {
    auto const part = [](char const* what, std::string const& text) {
      return text.empty() ? std::string() : std::string(" ") + what + "='" + text + "'";
    };
    std::string text = detail::words("nothing in libfabric %u.%u fits", FI_MAJOR(version_()), FI_MINOR(version_())) +
                       part("provider", w.provider) + part("interface", w.interface) + part("domain", w.domain) +
                       "; there is: ";
    for (auto const& line : list) text += line + "; ";
    return text + (list.empty() ? "nothing" : "name one of these in the settings ('=NAME' for one that is refused)");
  }

  decltype(&::fi_getinfo) getinfo_;
  decltype(&::fi_freeinfo) freeinfo_;
  decltype(&::fi_dupinfo) dupinfo_;
  decltype(&::fi_fabric) fabric_;
  decltype(&::fi_strerror) strerror_;
  decltype(&::fi_version) version_;
  pid_t const process_ = ::getpid();
};

}  // namespace ringlet
