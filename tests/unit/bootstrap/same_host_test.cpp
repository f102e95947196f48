// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/bootstrap/same_host.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "../../ranks.hpp"
#include "ringlet/transport/memory_file.hpp"

using namespace tests;

namespace {

using names = std::vector<std::string>;

ringlet::time_point soon() { return std::chrono::steady_clock::now() + 10s; }
names hosts_of(self who) {
  ringlet::detail::agreed_meeting m(who, "", soon());
  return ringlet::same_host{}(m, soon());
}

// A network namespace of one's own makes a host: local sockets do not reach beyond it.
bool can_make_hosts() {
  pid_t const child = ::fork();
  if (child == 0) ::_exit(::unshare(CLONE_NEWUSER | CLONE_NEWNET));
  int status = -1;
  ::waitpid(child, &status, 0);
  return status == 0;
}
// The lowest rank of a host makes it, the others come to it.
void move_to_host_of(self who, int lowest) {
  std::string const key = "process of " + std::to_string(lowest);
  if (who.rank == lowest) {
    expect(::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0, "a new host");
    who.store.set(key, std::to_string(::getpid()));
    return;
  }
  std::string const process = "/proc/" + who.store.get(key, soon()) + "/ns/";
  for (auto const& [name, kind] : {std::pair{"user", CLONE_NEWUSER}, std::pair{"net", CLONE_NEWNET}}) {
    ringlet::descriptor const there(::open((process + name).c_str(), O_RDONLY | O_CLOEXEC));
    expect(::setns(there.get(), kind) == 0, std::string("to another host: ") + std::strerror(errno));
  }
}

}  // namespace

TEST_CASE("ranks of one machine are one host, as processes and as threads") {
  for (auto as : {ranks_as::processes, ranks_as::threads})
    CHECK(launch(3, [](self who) { expect(hosts_of(who) == names{"0", "0", "0"}, "the hosts"); }, {.as = as}) == 0);
}

TEST_CASE("ranks of several hosts are told apart, and all ranks say the same") {
  if (!can_make_hosts()) {
    MESSAGE("left out: no network namespaces can be made here");
    return;
  }
  CHECK(launch(5, [](self who) {
          if (who.rank != 0) move_to_host_of(who, who.rank == 1 || who.rank == 3 ? 1 : 2);
          ringlet::prefixed store(who.store, "hosts/");
          ringlet::detail::agreed_meeting m(ringlet::bootstrap{who.rank, who.size, store}, "", soon());
          expect(ringlet::same_host{}(m, soon()) == names{"0", "1", "2", "1", "2"}, "the hosts");
        }) == 0);
}

TEST_CASE("other jobs of the machine are not in the way") {
  CHECK(launch(2, [](self who) {
          ringlet::prefixed first(who.store, "first/"), second(who.store, "second/");
          ringlet::detail::agreed_meeting one(ringlet::bootstrap{who.rank, who.size, first}, "", soon());
          // The other job's ranks are the other way round.
          ringlet::detail::agreed_meeting two(ringlet::bootstrap{1 - who.rank, who.size, second}, "", soon());
          expect(ringlet::same_host{}(one, soon()) == names{"0", "0"}, "the hosts of the one");
          expect(ringlet::same_host{}(two, soon()) == names{"0", "0"}, "the hosts of the other");
        }) == 0);
}

TEST_CASE("who cannot open its socket says why") {
  struct meeting_with_taken_name : ringlet::meeting_of_one {
    std::uint64_t token() const { return 77; }
  } m;
  ringlet::descriptor const taken(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::string const name = "ringlet/77/0";
  std::memcpy(at.sun_path + 1, name.data(), name.size());
  REQUIRE(::bind(taken.get(), reinterpret_cast<sockaddr*>(&at),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) == 0);
  expect(error_of([&] { ringlet::same_host{}(m, soon()); }), errc::bootstrap, "Address already in use");
}
