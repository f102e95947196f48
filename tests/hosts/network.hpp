// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Hosts that are none: network namespaces, joined by a bridge in one more. They go with the processes that are in them.

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tests {

inline bool command(std::string const& line) { return std::system((line + " >/dev/null 2>&1").c_str()) == 0; }
inline void must(std::string const& line) {
  if (!command(line)) throw std::runtime_error("failed: " + line);
}

// The switch that joins them. This process moves into a namespace of its own for it, for good.
class network {
 public:
  // Whether this machine lets the test make one.
  static bool possible() {
    return ::geteuid() == 0 && command("ip -V") && command("tc -V") &&
           command("unshare -n sh -c 'ip link add br0 type bridge && ip link add p0 type veth peer name p1'");
  }
  static bool can_lose() { return command("nft -v"); }

  // @param rate of each cable towards its host; none for no limit
  explicit network(std::vector<pid_t> const& hosts, std::string const& rate = "") {
    static bool const moved = ::unshare(CLONE_NEWNET) == 0;
    if (!moved) throw std::runtime_error("no network namespace");
    for (char const* bridge : {"br0", "br1"})
      must(std::string("ip link add ") + bridge + " type bridge && ip link set " + bridge + " up");
    for (pid_t pid : hosts) {
      int const host = ports_++;
      while (same_namespace(pid)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      must("ip link add " + port(host) + " type veth peer name eth0 netns " + std::to_string(pid));
      if (!rate.empty()) must(limited(port(host), rate));
      must("ip link set " + port(host) + " master br0 up");
    }
  }
  network(network const&) = delete;
  ~network() {
    command("nft delete table bridge faults");
    for (int host = 0; host < ports_; ++host) command("ip link del " + port(host));
    command("ip link del br0; ip link del br1");
  }
  // What a host's process calls first: it waits for its cable, and takes the address 10.77.0.(1 + host).
  static void enter(int host) {
    if (::unshare(CLONE_NEWNET) != 0) ::_exit(3);
    while (::if_nametoindex("eth0") == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    must("ip addr add 10.77.0." + std::to_string(1 + host) +
         "/24 dev eth0 && ip link set eth0 up && ip link set lo up");
    while (!carries()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // Limits what goes into a cable at this end.
  static std::string limited(std::string const& device, std::string const& rate) {
    return "tc qdisc replace dev " + device + " root tbf rate " + rate + " burst 128k latency 20ms";
  }
  void cut(int host) { must("ip link set " + port(host) + " down"); }
  // Hosts from `first` on are on another bridge, which leads nowhere.
  void part(int first) {
    for (int host = first; host < ports_; ++host) must("ip link set " + port(host) + " master br1");
  }
  void lose(int per_mille) {
    must("nft add table bridge faults");
    must("nft 'add chain bridge faults forwarded { type filter hook forward priority 0; }'");
    must("nft 'add rule bridge faults forwarded numgen random mod 1000 < " + std::to_string(per_mille) + " drop'");
  }

 private:
  static std::string port(int host) { return "port" + std::to_string(host); }
  static bool same_namespace(pid_t pid) {
    struct stat own, its;
    return ::stat("/proc/self/ns/net", &own) == 0 &&
           ::stat(("/proc/" + std::to_string(pid) + "/ns/net").c_str(), &its) == 0 && own.st_ino == its.st_ino;
  }
  // Whether something is at the other end of the cable: before, the interface is of no use.
  static bool carries() {
    int const s = ::socket(AF_INET, SOCK_DGRAM, 0);
    ifreq question{};
    std::strcpy(question.ifr_name, "eth0");
    bool const well = ::ioctl(s, SIOCGIFFLAGS, &question) == 0 && (question.ifr_flags & IFF_RUNNING) != 0;
    ::close(s);
    return well;
  }
  int ports_ = 0;
};

}  // namespace tests
