// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ringlet. Variants: ordinary memory, or allocated by the communicator.
#include "ringlet/ringlet.hpp"

#include <list>
#include <span>

#include "measure.hpp"

namespace {

using communicator = ringlet::communicator<ringlet::shared_memory>;

std::string version_text() {
  return "ringlet " + std::to_string(RINGLET_VERSION / 10000) + '.' + std::to_string(RINGLET_VERSION / 100 % 100) +
         '.' + std::to_string(RINGLET_VERSION % 100);
}

class adapter : public peers::library {
 public:
  adapter(communicator& comm, bool allocates)
      : library(version_text(), comm.rank(), comm.size()), comm_(comm), allocates_(allocates) {}

  void all_reduce(float const* in, float* out, std::size_t n) override {
    ringlet::all_reduce(comm_, std::span(in, n), std::span(out, n));
  }
  void reduce_scatter(float const* in, float* out, std::size_t n) override {
    ringlet::reduce_scatter(comm_, std::span(in, n * ranks()), std::span(out, n));
  }
  void all_gather(float const* in, float* out, std::size_t n) override {
    ringlet::all_gather(comm_, std::span(in, n), std::span(out, n * ranks()));
  }
  double largest(double mine) override {
    ringlet::all_reduce(comm_, std::span(&mine, 1), ringlet::maximum{});
    return mine;
  }
  float* memory(std::size_t n) override {
    return allocates_ ? kept_.emplace_back(comm_.allocate<float>(n)).data() : library::memory(n);
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(size); }

  communicator& comm_;
  bool allocates_;
  std::list<ringlet::allocation<float, ringlet::shared_memory>> kept_;
};

}  // namespace

int main(int argc, char** argv) {
  return peers::run(argc, argv, [](peers::task const& t) {
    return ringlet::launch(t.ranks, [&](auto who) {
      peers::pin(who.rank);
      auto comm = ringlet::connect<ringlet::shared_memory>(who);
      adapter a(comm, t.variant == "allocated");
      return peers::measure(a, t);
    });
  });
}
