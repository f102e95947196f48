// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// No library, but what memory allows: the bytes of a collective over memory that all ranks map, moved by vector code
// with no synchronisation at all. Every rank works on its 1/n of the buffer, all at the same time:
//
//     all_reduce      reads its chunk of n inputs, writes their sum to its chunk of n outputs
//     reduce_scatter  reads its chunk of n inputs, writes their sum to its own output
//     all_gather      reads its own input, writes it to its chunk of n outputs
//
// Variants: plain stores, and streaming (non-temporal) ones, which go past the caches.
#include <sys/mman.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstdint>
#include <new>
#include <span>

#include "measure.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/bootstrap/launch.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/transport/shared_memory.hpp"

namespace {

constexpr std::size_t line_floats = 16;
using line [[gnu::vector_size(64), gnu::aligned(4), gnu::may_alias]] = float;  // of the cache

template <bool Streams>
void store(float* to, line const& value) {
  if constexpr (!Streams) {
    *reinterpret_cast<line*>(to) = value;
#if defined(__AVX512F__)
  } else {
    _mm512_stream_ps(to, reinterpret_cast<__m512 const&>(value));
#elif defined(__x86_64__)
  } else {
    for (std::size_t i = 0; i < line_floats; i += 4)
      _mm_stream_ps(to + i, _mm_loadu_ps(reinterpret_cast<float const*>(&value) + i));
#endif
  }
}

// Where the buffers of ranks begin.
using buffers = std::span<float* const>;

// Elements of all inputs, summed, to all outputs, each from where they are in it.
template <bool Streams>
void sum(buffers in, std::size_t in_at, buffers out, std::size_t out_at, std::size_t count) {
  constexpr std::size_t lines = 2, block = lines * line_floats;  // two hide what the loops cost
  std::size_t i = 0;
  for (; i + block <= count; i += block) {
    line values[lines] = {};
    for (float const* const from : in)
      for (std::size_t k = 0; k < lines; ++k) values[k] += reinterpret_cast<line const*>(from + in_at + i)[k];
    for (float* const to : out)
      for (std::size_t k = 0; k < lines; ++k) store<Streams>(to + out_at + i + k * line_floats, values[k]);
  }
  for (; i < count; ++i) {
    float value = 0;
    for (float const* const from : in) value += from[in_at + i];
    for (float* const to : out) to[out_at + i] = value;
  }
#if defined(__x86_64__)
  if constexpr (Streams) _mm_sfence();
#endif
}

// All ranks' inputs and outputs, mapped by those that are forked from here, on huge pages if the system has some.
class shared_buffers {
 public:
  shared_buffers(int ranks, std::size_t bytes) {
    constexpr int collapse = 25;  // MADV_COLLAPSE, which older headers lack
    // A few lines more than whole pages, so that buffers do not contend for the same sets of the caches.
    std::size_t const each = ((bytes >> 12) + 2) * 1024 + 5 * line_floats, number = 2 * static_cast<std::size_t>(ranks);
    bytes_ = each * number * sizeof(float);
    begin_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (begin_ == MAP_FAILED) throw std::bad_alloc();
    std::fill_n(static_cast<float*>(begin_), each * number, 0.0F);
    ::madvise(begin_, bytes_, collapse);
    for (std::size_t i = 0; i < number; ++i) all_.push_back(static_cast<float*>(begin_) + i * each);
  }
  shared_buffers(shared_buffers const&) = delete;
  ~shared_buffers() { ::munmap(begin_, bytes_); }
  buffers in() const { return buffers(all_).first(all_.size() / 2); }
  buffers out() const { return buffers(all_).last(all_.size() / 2); }

 private:
  std::size_t bytes_;
  void* begin_;
  std::vector<float*> all_;
};

using communicator = ringlet::communicator<ringlet::shared_memory>;

class adapter : public peers::library {
 public:
  adapter(communicator& comm, shared_buffers const& all, bool streams)
      : library("", comm.rank(), comm.size()), comm_(comm), all_(all), streams_(streams) {}

  void all_reduce(float const*, float*, std::size_t n) override {
    std::size_t const lines = n / line_floats, r = index(), ranks = all_.in().size();
    std::size_t const begin = lines * r / ranks * line_floats;
    std::size_t const end = r + 1 == ranks ? n : lines * (r + 1) / ranks * line_floats;
    move(all_.in(), begin, all_.out(), begin, end - begin);
  }
  void reduce_scatter(float const*, float* out, std::size_t n) override {
    move(all_.in(), index() * n, buffers(&out, 1), 0, n);
  }
  void all_gather(float const*, float*, std::size_t n) override {
    move(all_.in().subspan(index(), 1), 0, all_.out(), index() * n, n);
  }
  double largest(double mine) override {
    ringlet::all_reduce(comm_, std::span(&mine, 1), ringlet::maximum{});
    return mine;
  }
  float* memory(std::size_t) override { return (asked_++ == 0 ? all_.in() : all_.out())[index()]; }

 private:
  std::size_t index() const { return static_cast<std::size_t>(rank); }
  void move(buffers in, std::size_t in_at, buffers out, std::size_t out_at, std::size_t n) const {
    bool aligned = true;  // as streaming stores must be: small parts are not
    for (float* const to : out) aligned = aligned && reinterpret_cast<std::uintptr_t>(to + out_at) % sizeof(line) == 0;
    streams_&& aligned ? sum<true>(in, in_at, out, out_at, n) : sum<false>(in, in_at, out, out_at, n);
  }

  communicator& comm_;
  shared_buffers const& all_;
  bool streams_;
  int asked_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  return peers::run(argc, argv, [](peers::task const& t) {
    shared_buffers const all(t.ranks, *std::max_element(t.sizes.begin(), t.sizes.end()));
    return ringlet::launch(t.ranks, [&](auto who) {
      peers::pin(who.rank);
      auto comm = ringlet::connect<ringlet::shared_memory>(who);
      adapter a(comm, all, t.variant == "streaming");
      return peers::measure(a, t);
    });
  });
}
