// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/bootstrap/from_environment.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "fake_hydra.hpp"
#include "store_contract.hpp"

namespace {

// Starts ranks as threads, each with its own variables; gives how each ended.
template <class Variables>
std::vector<std::string> run(int size, Variables&& variables) {
  std::vector<std::string> ends(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      std::map<std::string, std::string> const vars = variables(rank);
      std::string& end = ends[static_cast<std::size_t>(rank)];
      try {
        ringlet::launched_rank self(ringlet::environment([&](char const* name) -> char const* {
                                      auto const found = vars.find(name);
                                      return found == vars.end() ? nullptr : found->second.c_str();
                                    }),
                                    in_ms(10'000));
        auto const token = ringlet::agree(self.bootstrap(), "slots=8", in_ms(10'000));
        for (auto const& value : ringlet::exchange(self.bootstrap(), "x", std::to_string(rank), in_ms(10'000)))
          end += value;
        end += ' ' + std::to_string(token);
      } catch (ringlet::error const& e) {
        end = e.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return ends;
}

void check_met(std::vector<std::string> const& ends) {
  for (auto const& end : ends) {
    CHECK(end == ends[0]);
    CHECK(end.substr(0, 5) == "0123 ");
  }
}

std::string text(int n) { return std::to_string(n); }

}  // namespace

TEST_CASE("without a launcher: one rank, with a store that works") {
  auto self = ringlet::from_environment(in_ms(10'000));
  auto const b = self.bootstrap();
  CHECK(b.rank == 0);
  CHECK(b.size == 1);
  ringlet::agree(b, "slots=8", in_ms(1000));
  CHECK(self.where().launcher == "none");
  auto second = ringlet::from_environment(in_ms(10'000));  // each has its own store
  CHECK(second.where().port != self.where().port);
}

TEST_CASE("ranks meet by RINGLET_ variables") {
  check_met(run(4, [](int rank) {
    return std::map<std::string, std::string>{
        {"RINGLET_RANK", text(rank)}, {"RINGLET_SIZE", "4"}, {"RINGLET_JOB", "t1"}};
  }));
}

TEST_CASE("ranks meet by torchrun's variables, while torchrun listens at MASTER_PORT") {
  ringlet::tcp_server torchrun({});
  check_met(run(4, [&](int rank) {
    return std::map<std::string, std::string>{{"RANK", text(rank)},         {"WORLD_SIZE", "4"},
                                              {"LOCAL_RANK", text(rank)},   {"LOCAL_WORLD_SIZE", "4"},
                                              {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", text(torchrun.port())}};
  }));
}

TEST_CASE("several machines: the server listens on every interface") {
  check_met(run(4, [](int rank) {
    return std::map<std::string, std::string>{{"RANK", text(rank)},
                                              {"WORLD_SIZE", "4"},
                                              {"LOCAL_RANK", text(rank % 2)},
                                              {"LOCAL_WORLD_SIZE", "2"},
                                              {"MASTER_ADDR", rank < 2 ? "127.0.1.1" : "127.0.0.1"},
                                              {"MASTER_PORT", "29500"},
                                              {"RINGLET_JOB", "t2"}};
  }));
}

TEST_CASE("C71 hydra on several machines: ranks meet by the host name that rank 0 tells, whatever it resolves to") {
  for (std::string local : {"4", "2"}) {
    fake_hydra launcher(4);
    check_met(run(4, [&](int rank) {
      return std::map<std::string, std::string>{{"PMI_RANK", text(rank)},
                                                {"PMI_SIZE", "4"},
                                                {"PMI_FD", text(launcher.fd(rank))},
                                                {"MPI_LOCALRANKID", text(rank % 2)},
                                                {"MPI_LOCALNRANKS", local}};
    }));
    CHECK(launcher.finalized() == 4);
  }
}

TEST_CASE(
    "C74 two jobs with one port: the second's rank 0 says who may hold it, its other ranks that it is another job's") {
  auto const with = [](std::string job, int rank) {
    return std::map<std::string, std::string>{{"RINGLET_RANK", text(rank)},
                                              {"RINGLET_SIZE", "2"},
                                              {"RINGLET_PORT", "20479"},
                                              {"RINGLET_JOB", std::move(job)}};
  };
  ringlet::tcp_server first({.port = 20479, .job = "first"});
  auto const ends = run(2, [&](int rank) { return with("second", rank); });
  CHECK(ends[0].find("listening at 127.0.0.1:20479 failed") != std::string::npos);
  CHECK(ends[1].find("another job than 'second'") != std::string::npos);
}
