// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gloo over TCP, the only transport that it has within a machine. Variants: its ring, and halving-doubling, which works
// in place, on a copy of the input.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "measure.hpp"
#include "ringlet/bootstrap/launch.hpp"

namespace {

using context = std::shared_ptr<gloo::rendezvous::Context>;

context connect(int rank, int size, std::string const& folder) {
  gloo::transport::tcp::attr loopback;
  loopback.hostname = "127.0.0.1";
  gloo::rendezvous::FileStore store(folder);
  auto made = std::make_shared<gloo::rendezvous::Context>(rank, size);
  auto device = gloo::transport::tcp::CreateDevice(loopback);
  made->connectFullMesh(store, device);
  return made;
}

class adapter : public peers::library {
 public:
  adapter(context threaded, context polled, bool halves)
      : library("", threaded->rank, threaded->size), threaded_(threaded), polled_(polled), halves_(halves) {
    for (int r = 0; r < size; ++r)
      if (r != rank) polled_->getPair(r)->setSync(true, true);
  }

  void all_reduce(float const* in, float* out, std::size_t n) override {
    if (!halves_) return sum(in, out, n, gloo::sum<float>);
    if (prepared_count_ != n) {
      // The caller polls the sockets, which is much faster than Gloo's thread. But nobody reads then while both ends
      // write, so that what they write must fit in the sockets' buffers.
      context const& by = n * sizeof(float) <= std::size_t{256} << 10 ? polled_ : threaded_;
      std::vector<float*> const buffers{out};
      prepared_ = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(by, buffers, static_cast<int>(n));
      prepared_count_ = n;
    }
    std::copy_n(in, n, out);
    prepared_->run();
  }
  void all_gather(float const* in, float* out, std::size_t n) override {
    gloo::AllgatherOptions o(threaded_);
    o.setInput(const_cast<float*>(in), n);
    o.setOutput(out, n * static_cast<std::size_t>(size));
    gloo::allgather(o);
  }
  double largest(double mine) override {
    double all = 0;
    sum(&mine, &all, 1, gloo::max<double>);
    return all;
  }

 private:
  template <class T>
  void sum(T const* in, T* out, std::size_t n, void (*f)(void*, void const*, void const*, std::size_t)) {
    gloo::AllreduceOptions o(threaded_);
    o.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    o.setInput(const_cast<T*>(in), n);
    o.setOutput(out, n);
    o.setReduceFunction(f);
    gloo::allreduce(o);
  }

  context threaded_, polled_;
  bool halves_;
  std::unique_ptr<gloo::AllreduceHalvingDoubling<float>> prepared_;
  std::size_t prepared_count_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  return peers::run(argc, argv, [](peers::task const& t) {
    std::string folder = std::filesystem::temp_directory_path() / "ringlet-peers-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("cannot make the folder " + folder);
    std::filesystem::create_directory(folder + "/polled");
    int const status = ringlet::launch(t.ranks, [&](auto who) {
      adapter a(connect(who.rank, who.size, folder), connect(who.rank, who.size, folder + "/polled"),
                t.variant == "halving_doubling");
      peers::pin(a.rank);
      return peers::measure(a, t);
    });
    std::filesystem::remove_all(folder);
    return status;
  });
}
