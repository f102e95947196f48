// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two transports in one all-reduce: shared memory inside each host, another one between hosts. Here two hosts are made
// up and the sockets of 07_own_transport.hpp are the network, so that it runs anywhere. On real hosts it is
//
//     auto ranks = ringlet::connect_hierarchical<ringlet::shared_memory, ringlet::fabric>(who);
//
// which finds out by itself which ranks share a host.
#include "ringlet/hierarchical.hpp"

#include <cstdio>
#include <string>
#include <vector>

#include "07_own_transport.hpp"
#include "ringlet/ringlet.hpp"

int main() {
  return ringlet::launch(6, [](ringlet::bootstrap<ringlet::memory_store> who) {
    // A name for each rank's host, by rank; names from elsewhere would come by m.exchange.
    auto const three_on_each = [](auto& m, ringlet::time_point) {
      std::vector<std::string> names;
      for (int rank = 0; rank < m.size(); ++rank) names.push_back(rank < 3 ? "left" : "right");
      return names;
    };
    auto ranks = ringlet::connect_hierarchical<ringlet::shared_memory, sockets>(who, {}, {}, three_on_each);

    std::vector<float> gradient(900'000, static_cast<float>(ranks.rank()));
    ringlet::all_reduce(ranks, gradient, ringlet::average{});  // divided once, by six
    for (float g : gradient)
      if (g != 2.5F) return 1;

    // A rank's memory that all of its host can reach saves the copies inside.
    auto const reachable = ranks.inner().allocate<float>(900'000);
    for (float& x : reachable) x = 1;
    ringlet::all_reduce(ranks, reachable);
    if (reachable[0] != 6) return 1;

    if (ranks.rank() == 0)
      std::printf("%d hosts of %d ranks: each rank sent a third of a gradient over the network\n", ranks.outer().size(),
                  ranks.inner().size());
    return 0;
  });
}
