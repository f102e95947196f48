// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/// The launcher's side of PMI-1, as MPICH's hydra speaks it, for tests: one socket a rank, served by a thread.
class fake_hydra {
 public:
  explicit fake_hydra(int size) {
    for (int rank = 0; rank < size; ++rank) {
      int pair[2] = {-1, -1};
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) throw std::runtime_error("socketpair");
      ranks_.push_back({pair[0], pair[1], {}});
    }
    thread_ = std::thread([this] { serve(); });
  }
  fake_hydra(fake_hydra const&) = delete;
  fake_hydra& operator=(fake_hydra const&) = delete;
  /// Ends once all ranks have closed their sockets, which it does for them.
  ~fake_hydra() {
    for (auto const& r : ranks_) ::close(r.theirs);
    thread_.join();
    for (auto const& r : ranks_) ::close(r.ours);
  }

  /// What PMI_FD says to a rank.
  int fd(int rank) const { return ranks_[static_cast<std::size_t>(rank)].theirs; }
  /// How many ranks have said good-bye. Read once the ranks are done.
  int finalized() const { return finalized_; }

 private:
  struct rank {
    int ours, theirs;
    std::string line;
  };

  void serve() {
    for (std::size_t left = ranks_.size(); left > 0;) {
      std::vector<pollfd> watched;
      for (auto const& r : ranks_) watched.push_back({r.ours, POLLIN, 0});
      for (std::size_t const i : gone_) watched[i].fd = -1;
      ::poll(watched.data(), watched.size(), -1);
      for (std::size_t i = 0; i < ranks_.size(); ++i) {
        char c;
        if (watched[i].fd < 0 || !watched[i].revents) continue;
        if (::read(ranks_[i].ours, &c, 1) != 1) {
          gone_.push_back(i);
          --left;
        } else if (c != '\n') {
          ranks_[i].line += c;
        } else {
          answer(ranks_[i], std::exchange(ranks_[i].line, {}));
        }
      }
    }
  }

  static std::string field(std::string const& line, std::string const& name) {
    auto const at = line.find(' ' + name + '=');
    if (at == std::string::npos) return {};
    auto const value = at + name.size() + 2;
    return line.substr(value, line.find(' ', value) - value);
  }
  static void say(rank const& r, std::string const& line) {
    [[maybe_unused]] auto const sent = ::send(r.ours, (line + '\n').data(), line.size() + 1, MSG_NOSIGNAL);
  }

  void answer(rank& r, std::string const& line) {
    if (line.starts_with("cmd=init ")) return say(r, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
    if (line == "cmd=get_my_kvsname") return say(r, "cmd=my_kvsname kvsname=kvs_1_0");
    if (line.starts_with("cmd=put kvsname=kvs_1_0 ")) {
      values_[field(line, "key")] = field(line, "value");
      return say(r, "cmd=put_result rc=0 msg=success");
    }
    if (line.starts_with("cmd=get kvsname=kvs_1_0 ")) {
      auto const found = values_.find(field(line, "key"));
      if (found == values_.end()) return say(r, "cmd=get_result rc=-1 msg=key_not_found value=unknown");
      return say(r, "cmd=get_result rc=0 msg=success value=" + found->second);
    }
    if (line == "cmd=barrier_in") {
      if (++at_barrier_ < ranks_.size()) return;
      at_barrier_ = 0;
      for (auto const& each : ranks_) say(each, "cmd=barrier_out");
      return;
    }
    if (line == "cmd=finalize") {
      ++finalized_;
      return say(r, "cmd=finalize_ack");
    }
    say(r, "cmd=unknown rc=-1");
  }

  std::vector<rank> ranks_;
  std::vector<std::size_t> gone_;
  std::map<std::string, std::string> values_;
  std::size_t at_barrier_ = 0;
  std::atomic<int> finalized_ = 0;
  std::thread thread_;
};
