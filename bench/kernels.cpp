// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `combine` of each element type and operator against copies that move as many bytes, reads and writes counted, from
// and to memory. They take turns within one run, so that what else the machine does meets all; `of_copy` is the ratio
// of its rate to a plain copy's, `of_memcpy` to that of the C library, which stores past the caches from some size on
// (the medians of all turns).
//
//     kernels                                   # everything
//     kernels --benchmark_filter='/64Mi'        # buffers of 64 MiB
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ringlet/combine.hpp"

namespace {

using namespace ringlet;
using seconds = std::chrono::duration<double>;

// What a step of a ring or of a direct operation does.
enum class use {
  out_of_place,  // result = got + own: a direct operation's
  in_place,      // own = got + own
};

template <class F>
double timed(F f) {
  auto const start = std::chrono::steady_clock::now();
  f();
  benchmark::ClobberMemory();
  return seconds(std::chrono::steady_clock::now() - start).count();
}

// Loads and stores, a cache line at a time.
void plain_copy(void* to, void const* from, std::size_t bytes) {
  for (std::size_t i = 0; i + 64 <= bytes; i += 64) {
    std::memcpy(static_cast<char*>(to) + i, static_cast<char const*>(from) + i, 64);
    benchmark::ClobberMemory();  // or the compiler calls memcpy once for all
  }
}

double median(std::vector<double> all) {
  auto const middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

struct free_memory {
  void operator()(void* p) const { std::free(p); }
};
using memory = std::unique_ptr<void, free_memory>;

memory filled(std::size_t bytes) {
  memory m(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  std::memset(m.get(), 0x11, bytes);  // small and finite in every format
  return m;
}

template <class T, class Op>
void kernel(benchmark::State& state, Op op, use as, std::size_t bytes) {
  using how = arithmetic<T, Op>;
  using W = typename how::wire;
  std::size_t const n = bytes / sizeof(T);
  memory const got = filled(n * sizeof(W)), own = filled(bytes), result = filled(bytes);
  auto* const to = static_cast<T*>(as == use::in_place ? own.get() : result.get());
  // Copies that read and write as many bytes, from one end of the buffers to the other.
  std::size_t const moved = n * sizeof(W) + 2 * bytes, copied = moved / 2;
  memory const from = filled(copied), into = filled(copied);

  std::vector<double> combines, copies, memcpies;
  for (auto _ : state) {
    combines.push_back(timed([&] {
      combine(this_thread{}, static_cast<W*>(nullptr), to, static_cast<W const*>(got.get()),
              static_cast<T const*>(own.get()), n, how(op, 2), false);
    }));
    copies.push_back(timed([&] { plain_copy(into.get(), from.get(), copied); }));
    memcpies.push_back(timed([&] { std::memcpy(into.get(), from.get(), copied); }));
    state.SetIterationTime(combines.back());
  }
  double const time = median(combines);
  state.counters["GB/s"] = static_cast<double>(moved) / time / 1e9;
  state.counters["of_copy"] = median(copies) / time;
  state.counters["of_memcpy"] = median(memcpies) / time;
}

template <class T, class Op>
void add(Op op) {
  std::string name = element_name<T>;
  name += std::string(" ") + operation_name<Op>;
  if (!std::is_same_v<typename arithmetic<T, Op>::wire, T>)
    name += std::string(" as ") + element_name<typename arithmetic<T, Op>::wire>;
  for (use as : {use::out_of_place, use::in_place})
    for (std::size_t mebibytes : {64, 256})
      benchmark::RegisterBenchmark(
          (name + (as == use::in_place ? "/in place/" : "/out of place/") + std::to_string(mebibytes) + "Mi").c_str(),
          [=](benchmark::State& state) { kernel<T>(state, op, as, mebibytes << 20); })
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond)
          ->Iterations(11);
}

}  // namespace

int main(int argc, char** argv) {
  add<float>(sum{});
  add<double>(sum{});
  add<std::int32_t>(sum{});
  add<bfloat16>(sum{});
  add<float16>(sum{});
  add<std::int8_t>(sum{});
  add<std::int16_t>(sum{});
  add<std::int64_t>(sum{});
  add<float>(product{});
  add<float>(minimum{});
  add<float>(maximum{});
  add<float16>(minimum{});
  add<std::int32_t>(minimum{});
  add<float>(scaled_sum{0.5F});
  add<float>(travel_as<bfloat16>(sum{}));
  add<float>(travel_as<float16>(sum{}));
  add<float8_e4m3>(accumulate_in<float>(sum{}));
  add<float8_e5m2>(accumulate_in<float>(sum{}));
  add<std::complex<float>>(sum{});
  add<std::complex<float>>(product{});
  add<std::int32_t>(bit_xor{});
  add<bool>(logical_or{});
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
