// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/memory_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <utility>

#include "../../ranks.hpp"

using namespace tests;
using ringlet::descriptor;
using ringlet::mapping;
using ringlet::memory_file;

namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }
std::size_t bytes_used(memory_file const& f) {
  struct stat s;
  return ::fstat(f.file().get(), &s) == 0 ? static_cast<std::size_t>(s.st_blocks) * 512 : 0;
}

}  // namespace

TEST_CASE("a descriptor is closed when it goes, once, also after moves") {
  int fd = -1;
  {
    descriptor a(::open("/dev/null", O_RDONLY));
    fd = a.get();
    descriptor b(std::move(a)), c;
    CHECK_FALSE(a);
    c = std::move(b);
    CHECK(c.get() == fd);
    CHECK(is_open(fd));
  }
  CHECK_FALSE(is_open(fd));
  CHECK_FALSE(descriptor());
}

TEST_CASE("a file grows by whole pages of zeros, which all mappings share") {
  memory_file file{""};
  CHECK(file.grow(1) == 0);
  std::size_t const second = file.grow(5000);
  CHECK(second == 4096);
  CHECK(file.grow(1) == 3 * 4096);
  mapping const a(file.file(), second, 5000), b(file.file(), second, 5000);
  for (std::size_t i = 0; i < 5000; ++i) REQUIRE(a.data()[i] == std::byte{0});
  a.data()[4999] = std::byte{7};
  CHECK(b.data()[4999] == std::byte{7});
}

TEST_CASE("every byte is there from the beginning, until it is given back, to the last page") {
  memory_file file{""};
  file.grow(1 << 20);
  std::size_t const before = bytes_used(file), at = file.grow(200'000);
  CHECK(before >= 1 << 20);
  CHECK(bytes_used(file) >= before + 200'000);
  file.punch(at, 200'000);
  CHECK(bytes_used(file) == before);
}

TEST_CASE("what was given back reads as zeros") {
  memory_file file{""};
  std::size_t const at = file.grow(4096);
  mapping const m(file.file(), at, 4096);
  m.data()[5] = std::byte{9};
  file.punch(at, 4096);
  CHECK(m.data()[5] == std::byte{0});
}

TEST_CASE("the file has no name, is not inherited by programs, and is gone with its last user") {
  memory_file file{""};
  file.grow(1);
  struct stat s;
  REQUIRE(::fstat(file.file().get(), &s) == 0);
  CHECK(s.st_nlink == 0);
  CHECK((::fcntl(file.file().get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("a directory can be named, and nothing is seen in it") {
  memory_file file{"/dev/shm"};
  std::size_t const at = file.grow(10'000);
  mapping const m(file.file(), at, 10'000);
  m.data()[9'999] = std::byte{1};
  struct stat s;
  REQUIRE(::fstat(file.file().get(), &s) == 0);
  CHECK(s.st_nlink == 0);
}

TEST_CASE("a directory that cannot be used is named") {
  auto const e = error_of([] { memory_file{"/nowhere/at/all"}.grow(1); });
  REQUIRE(e);
  CHECK(e->why() == errc::out_of_memory);
  CHECK(contains(e->what(), "/nowhere/at/all"));
  CHECK(contains(e->what(), "settings::directory"));
}

TEST_CASE("more than the machine has is refused with the bytes needed and available") {
  memory_file file{""};
  auto const e = error_of([&] { file.grow(std::size_t{1} << 50); });
  REQUIRE(e);
  CHECK(e->why() == errc::out_of_memory);
  CHECK(contains(e->what(), "needs 1125899906842624 bytes"));
  CHECK(contains(e->what(), " bytes of shared memory, and "));
  CHECK(contains(e->what(), " are available"));
  CHECK(file.grow(4096) == 0);  // and it is still good
}

TEST_CASE("what cannot be mapped is refused") {
  auto const e = error_of([] { mapping m(descriptor(), 0, 4096); });
  REQUIRE(e);
  CHECK(e->why() == errc::out_of_memory);
}
