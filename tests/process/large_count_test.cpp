// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// C68: counts and bytes beyond 32 bits.

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <string>

#include "../over_both.hpp"
#include "ringlet/all_gather.hpp"
#include "ringlet/all_reduce.hpp"

using namespace tests;

namespace {

// Memory that takes no more than what is touched, and is not counted before.
class pages {
 public:
  explicit pages(std::size_t bytes)
      : bytes_(bytes),
        data_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    expect(data_ != MAP_FAILED, "no memory");
    ::madvise(data_, bytes, MADV_HUGEPAGE);
  }
  pages(pages const&) = delete;
  ~pages() { ::munmap(data_, bytes_); }
  template <class T>
  std::span<T> as() const {
    return {static_cast<T*>(data_), bytes_ / sizeof(T)};
  }

 private:
  std::size_t bytes_;
  void* data_;
};

bool enough_memory(std::size_t gibibytes) {
  std::ifstream about("/proc/meminfo");
  std::string name, unit;
  std::size_t kibibytes = 0;
  while (about >> name >> kibibytes >> unit && name != "MemAvailable:") {
  }
  return kibibytes > gibibytes << 20;
}

}  // namespace

OVER_BOTH("C68: 2^31 + 1 elements of a byte, two ranks") {
  if (!enough_memory(6)) {
    MESSAGE("skipped: needs 6 GiB of free memory");
    return;
  }
  constexpr std::size_t count = (std::size_t{1} << 31) + 1;
  CHECK(on<Ranks>(2, [](auto& comm) {
          pages const memory(count);
          auto const x = memory.as<std::int8_t>();
          std::memset(x.data(), 1 + comm.rank(), count);
          std::size_t const odd[] = {0, count / 2, count / 2 + 1, (std::size_t{1} << 31) - 1, count - 1};
          for (std::size_t i : odd) x[i] = static_cast<std::int8_t>(10 * (1 + comm.rank()));
          ringlet::all_reduce(comm, x);
          for (std::size_t i : odd) expect(x[i] == 30, "element " + std::to_string(i));
          for (std::size_t i : {std::size_t{1}, count / 2 - 1, count - 3})
            expect(x[i] == 3, "element " + std::to_string(i));
        }) == 0);
}

OVER_BOTH("C68: four ranks, and more bytes in all than an int counts") {
  if (!enough_memory(6)) {
    MESSAGE("skipped: needs 6 GiB of free memory");
    return;
  }
  constexpr std::size_t count = (std::size_t{1} << 27) + 3;  // of 8 bytes, a GiB a rank
  CHECK(on<Ranks>(4, [](auto& comm) {
          pages const memory(count * sizeof(std::int64_t));
          auto const x = memory.as<std::int64_t>();
          auto const chunks = comm.chunks(count);
          auto const me = static_cast<std::size_t>(comm.rank());
          x[chunks.offset(me)] = 100 + comm.rank();  // all other elements are 0, and are not touched
          x[chunks.offset(me + 1) - 1] = 200 + comm.rank();
          ringlet::all_gather(comm, x);
          for (std::size_t r = 0; r < 4; ++r) {
            expect(x[chunks.offset(r)] == static_cast<std::int64_t>(100 + r),
                   "the first element of rank " + std::to_string(r));
            expect(x[chunks.offset(r + 1) - 1] == static_cast<std::int64_t>(200 + r),
                   "the last element of rank " + std::to_string(r));
          }
        }) == 0);
}
