// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All kernels on one GPU, whose ranks are blocks of one launch: whether they add up, and how fast beside a copy from
// device memory to device memory in the same run. Ends with 77 where there is no GPU. Run by on_one_gpu.sh.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "ringlet/cuda.hpp"
#include "ringlet/cuda_elements.hpp"
#include "ringlet/cuda_kernels.hpp"
#include "ringlet/direct_kernel.hpp"
#include "ringlet/line_kernel.hpp"

namespace {

using namespace ringlet;

constexpr std::uint64_t patience = 5'000'000'000;
int failures = 0;
cudaStream_t stream;

// Device memory that is zeroed at first.
template <class T>
class memory {
 public:
  explicit memory(std::size_t count) : count_(count) {
    check_cuda(cudaMalloc(&data_, std::max<std::size_t>(count, 1) * sizeof(T)), "cudaMalloc");
    check_cuda(cudaMemset(data_, 0, count * sizeof(T)), "cudaMemset");
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // the stream does not wait for it
  }
  memory(memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), count_(other.count_) {}
  ~memory() { (void)cudaFree(data_); }
  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  void put(std::vector<T> const& from) {
    check_cuda(cudaMemcpy(data_, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  std::vector<T> get() const {
    std::vector<T> to(count_);
    check_cuda(cudaMemcpy(to.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return to;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

// Small whole numbers: their sums are exact in every type.
RINGLET_HD float value_of(std::size_t i, int rank) {
  return static_cast<float>(static_cast<int>((i * 7 + static_cast<unsigned>(rank) * 13) % 17) - 8);
}

template <class T>
struct fill {
  T* to;
  std::size_t count;
  int rank;
  template <kernel_worker W>
  RINGLET_HD void operator()(W const& w, unsigned block, unsigned blocks) const {
    std::size_t const step = std::size_t{blocks} * w.size();
    for (std::size_t i = std::size_t{block} * w.size() + w.rank(); i < count; i += step)
      to[i] = static_cast<T>(value_of(i, rank));
  }
};
// Counts elements that are not the sum over all ranks.
template <class T>
struct count_wrong {
  T const* from;
  std::size_t count;
  int ranks;
  std::uint64_t* wrong;  // one for each block
  template <kernel_worker W>
  RINGLET_HD void operator()(W const& w, unsigned block, unsigned blocks) const {
    std::size_t const step = std::size_t{blocks} * w.size();
    for (std::size_t i = std::size_t{block} * w.size() + w.rank(); i < count; i += step) {
      float sum = 0;
      for (int r = 0; r < ranks; ++r) sum += value_of(i, r);
      if (static_cast<float>(from[i]) != sum) wrong[block] = 1;  // whoever writes, writes the same
    }
  }
};
// The loop of one hop alone: two operands, one result.
template <class T>
struct combine_only {
  T const* a;
  T const* b;
  T* to;
  std::size_t count;
  template <kernel_worker W>
  RINGLET_HD void operator()(W const& w, unsigned block, unsigned blocks) const {
    partition const shares{count, blocks};
    std::size_t const at = shares.offset(block);
    combine(w, static_cast<T*>(nullptr), to + at, a + at, b + at, shares.length(block), arithmetic<T, sum>(sum{}, 2),
            false);
  }
};

// Seconds that `f` takes, the median of several.
template <class F>
double seconds(int times, F f) {
  cudaEvent_t begin, end;
  check_cuda(cudaEventCreate(&begin), "cudaEventCreate");
  check_cuda(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<float> all;
  for (int i = 0; i < times + 2; ++i) {
    check_cuda(cudaEventRecord(begin, stream), "cudaEventRecord");
    f();
    check_cuda(cudaEventRecord(end, stream), "cudaEventRecord");
    check_cuda(cudaEventSynchronize(end), "cudaEventSynchronize");
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    if (i >= 2) all.push_back(ms / 1000);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

// Ranks whose segments and buffers are in the memory of this one device.
template <class T>
struct world {
  device_layout layout;
  std::vector<memory<std::byte>> segments;
  std::vector<memory<T>> in, out;
  memory<std::byte*> windows{most_device_peers};
  std::vector<std::byte*> at;

  world(int ranks, unsigned lanes, std::size_t most, std::size_t slot_bytes)
      : layout{.ranks = ranks, .lanes = lanes, .slots = 4, .slot_bytes = slot_bytes, .line_count = 1024} {
    for (int r = 0; r < ranks; ++r) {
      at.push_back(segments.emplace_back(layout.bytes()).data());
      in.emplace_back(most);
      out.emplace_back(most);
      launch_kernel(stream, 64, 256, fill<T>{in.back().data(), most, r});
    }
    for (int r = 0; r < ranks; ++r)
      for (unsigned i = 0; i < lanes; ++i) {
        device_lane const view = layout.view(r, i, at.data());
        check_cuda(
            cudaMemcpy(at[static_cast<unsigned>(r)] + i * sizeof view, &view, sizeof view, cudaMemcpyHostToDevice),
            "cudaMemcpy");
      }
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  device_lane* lane(int r) const { return reinterpret_cast<device_lane*>(at[static_cast<unsigned>(r)]); }
  buffers<T> of(int r, std::size_t count, bool in_place) const {
    auto const i = static_cast<unsigned>(r);
    return {in_place ? out[i].data() : in[i].data(), out[i].data(), {count, static_cast<std::size_t>(layout.ranks)}};
  }
  shown_call shown(buffers<T> const& b) const {
    auto const located = [](void const* p) { return position{1, reinterpret_cast<std::uintptr_t>(p)}; };
    return {{}, located(b.input), located(b.output)};
  }
  void reset(std::size_t count, bool in_place) const {
    for (std::size_t r = 0; r < out.size(); ++r) {
      check_cuda(cudaMemsetAsync(out[r].data(), 0xff, count * sizeof(T), stream), "cudaMemset");
      if (in_place) launch_kernel(stream, 64, 256, fill<T>{out[r].data(), count, static_cast<int>(r)});
    }
  }
  bool right(std::size_t count) const {
    memory<std::uint64_t> wrong(64);
    for (auto const& o : out)
      launch_kernel(stream, 64, 256, count_wrong<T>{o.data(), count, layout.ranks, wrong.data()});
    check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    auto const all = wrong.get();
    bool good = std::all_of(all.begin(), all.end(), [](std::uint64_t w) { return w == 0; });
    for (auto* segment : at) {
      std::vector<kernel_report> reports(layout.lanes);
      check_cuda(cudaMemcpy(reports.data(), segment + layout.reports_offset(), reports.size() * sizeof(kernel_report),
                            cudaMemcpyDeviceToHost),
                 "cudaMemcpy");
      for (auto const& r : reports)
        if (r.said.value != 0) {
          auto const said = kernel_report::verdict::unpack(r.said.value);
          std::printf("  gave up: why %d, peer %d, step %d\n", static_cast<int>(said.why), said.peer, said.step);
          good = false;
        }
    }
    return good;
  }
};

double copied_bytes_per_second;

// One kernel of one size, in place and not: right or not, and with `times` how fast.
template <class T, class Make>
void one(char const* name, char const* type, world<T> const& w, std::size_t count, double moved, int times, Make make) {
  using body = decltype(make(0, w.of(0, count, false)));
  int const ranks = w.layout.ranks;
  memory<body> bodies(static_cast<unsigned>(ranks));
  all_ranks<body> const all{bodies.data(), w.layout.lanes};
  auto const blocks = static_cast<unsigned>(ranks) * w.layout.lanes;
  if (blocks > most_blocks<all_ranks<body>>(most_block_threads)) return;
  auto const go = [&] { launch_kernel(stream, blocks, most_block_threads, all); };
  bool good = true;
  double taken = 0;
  for (bool in_place : {true, false}) {
    std::vector<body> made;
    for (int r = 0; r < ranks; ++r) made.push_back(make(r, w.of(r, count, in_place)));
    bodies.put(made);
    w.reset(count, in_place);
    go();
    good = w.right(count) && good;
    if (!good) break;
    if (!in_place && times != 0) taken = seconds(times, go);
  }
  failures += !good;
  std::printf("%-9s %-8s ranks %d lanes %2u %11zu B  %s", name, type, ranks, w.layout.lanes, count * sizeof(T),
              good ? "right" : "WRONG");
  if (taken != 0)
    std::printf("  %9.2f us  algbw %7.1f GB/s  moved %7.1f GB/s, %4.2f of the copy", taken * 1e6,
                static_cast<double>(count * sizeof(T)) / taken / 1e9, moved / taken / 1e9,
                moved / taken / copied_bytes_per_second);
  std::printf("\n");
  std::fflush(stdout);
}

// All kernels. What the memory of the one device has to move for all ranks: a ring of slots (6n - 4) times the buffer,
// the direct route twice a rank, and so on; what stays in a cache is not taken off.
template <class T>
void all_kernels(char const* type, int ranks, unsigned lanes, std::vector<std::size_t> const& counts,
                 std::size_t slot_bytes, bool timed) {
  std::size_t const most = *std::max_element(counts.begin(), counts.end());
  world<T> const w(ranks, lanes, most, slot_bytes);
  for (std::size_t count : counts) {
    double const bytes = static_cast<double>(count * sizeof(T)), n = ranks;
    int const times = !timed ? 0 : bytes > 1e7 ? 10 : 30;
    pipelining const pipe{
        std::min(slot_bytes / sizeof(T), std::max<std::size_t>(count / static_cast<unsigned>(ranks) / lanes, 1)), 2};
    one<T>("ring", type, w, count, (6 * n - 4) * bytes, times, [&](int r, buffers<T> at) {
      return ring_kernel<collective::all_reduce, T, sum>{w.lane(r), at, pipe, {sum{}, ranks}, call{}, patience};
    });
    auto const direct = [&](kernel_route route) {
      return [&w, route, ranks](int r, buffers<T> at) {
        return direct_kernel<collective::all_reduce, T, sum>{
            w.lane(r), at, route, {sum{}, ranks}, w.shown(at), w.windows.data(), patience};
      };
    };
    one<T>("direct", type, w, count, n * 2 * bytes, times, direct(kernel_route::direct));
    if (bytes <= 4e6) one<T>("staged", type, w, count, n * 5 * bytes, times, direct(kernel_route::staged));
    if (bytes <= 1e6) one<T>("one shot", type, w, count, n * (n + 3) * bytes, times, direct(kernel_route::one_shot));
    using lines = line_kernel<collective::all_reduce, T, sum>;
    if (lines::lines({count, static_cast<std::size_t>(ranks)}, lanes) <= w.layout.line_count)
      one<T>("lines", type, w, count, 0, times, [&](int r, buffers<T> at) {
        return lines{w.lane(r), at, {sum{}, ranks}, call{}, patience};
      });
  }
}

template <class T>
void hop(char const* type, int processors) {
  std::size_t const count = (std::size_t{256} << 20) / sizeof(T);
  memory<T> a(count), b(count), to(count);
  for (int each : {1, 2}) {
    auto const blocks = static_cast<unsigned>(processors * each);
    if (blocks > most_blocks<combine_only<T>>(most_block_threads)) continue;
    double const taken = seconds(10, [&] {
      launch_kernel(stream, blocks, most_block_threads, combine_only<T>{a.data(), b.data(), to.data(), count});
    });
    double const moved = 3.0 * static_cast<double>(count * sizeof(T)) / taken;
    std::printf("one hop   %-8s %4u blocks: moved %7.1f GB/s, %4.2f of the copy\n", type, blocks, moved / 1e9,
                moved / copied_bytes_per_second);
  }
}

int run(bool timed) {
  cudaDeviceProp device;
  check_cuda(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  std::printf("%s, %d multiprocessors\n", device.name, device.multiProcessorCount);
  if (timed) {
    std::size_t const bytes = std::size_t{512} << 20;
    memory<std::byte> a(bytes), b(bytes);
    double const taken = seconds(10, [&] {
      check_cuda(cudaMemcpyAsync(b.data(), a.data(), bytes, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync");
    });
    copied_bytes_per_second = 2.0 * static_cast<double>(bytes) / taken;
    std::printf("copy, device to device: moved %.1f GB/s\n", copied_bytes_per_second / 1e9);
    hop<float>("float32", device.multiProcessorCount);
    hop<__nv_bfloat16>("bfloat16", device.multiProcessorCount);
  }
  std::vector<std::size_t> const few = {0, 1, 1000, 100003};
  for (int ranks : {2, 3, 4, 8}) all_kernels<float>("float32", ranks, 2, few, 4096, false);
  all_kernels<__nv_bfloat16>("bfloat16", 3, 3, few, 4096, false);
  all_kernels<std::int64_t>("int64", 4, 2, few, 4096, false);
  if (timed) {
    std::vector<std::size_t> const many = {256, 4096, 65536, 1 << 20, 16 << 20};
    for (unsigned lanes : {8u, 16u, 32u}) all_kernels<float>("float32", 2, lanes, many, std::size_t{128} << 10, true);
    for (int ranks : {4, 8}) all_kernels<float>("float32", ranks, 16, many, std::size_t{64} << 10, true);
    all_kernels<__nv_bfloat16>("bfloat16", 4, 32, many, std::size_t{64} << 10, true);
  }
  std::printf("%d failed\n", failures);
  return failures != 0;
}

}  // namespace

int main(int argc, char** argv) try {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("skipped: no CUDA device");
    return 77;
  }
  return run(argc < 2 || std::strcmp(argv[1], "--untimed") != 0);
} catch (std::exception const& e) {
  std::printf("%s\n", e.what());
  return 1;
}
