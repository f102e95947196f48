// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "ringlet/error.hpp"

namespace ringlet {

/// An open file descriptor, closed when it goes.
class descriptor {
 public:
  descriptor() = default;
  explicit descriptor(int fd) : fd_(fd) {}
  descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// Bytes of a huge page. Parts of files of at least so many lie and are mapped at multiples of it.
inline constexpr std::size_t huge_page = std::size_t{2} << 20;

/// A part of a file in this process's memory, unmapped when it goes.
class mapping {
 public:
  mapping() = default;
  /// @throws error(errc::out_of_memory) when it cannot be mapped
  mapping(descriptor const& file, std::size_t offset, std::size_t bytes) : bytes_(bytes) {
    auto map = [&](void* place, std::size_t size, int protection, int flags, int fd, std::size_t from) {
      void* const p = ::mmap(place, size, protection, flags, fd, static_cast<off_t>(from));
      if (p == MAP_FAILED)
        throw error(errc::out_of_memory,
                    detail::words("mapping %zu shared bytes failed: %s", bytes, std::strerror(errno)));
      return static_cast<std::byte*>(p);
    };
    std::byte* place = nullptr;
    if (bytes >= huge_page) {  // more address space than needed, of which only an aligned piece stays
      std::size_t const reserved = bytes + huge_page;
      std::byte* const begin = map(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      std::size_t const before = (0 - reinterpret_cast<std::uintptr_t>(begin)) % huge_page;
      std::size_t const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
      std::size_t const end = before + (bytes + page - 1) / page * page;
      place = begin + before;
      if (before != 0) ::munmap(begin, before);
      if (end < reserved) ::munmap(begin + end, reserved - end);
    }
    data_ =
        map(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (place != nullptr ? MAP_FIXED : 0), file.get(), offset);
  }
  mapping(mapping&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  mapping& operator=(mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~mapping() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }
  std::byte* data() const { return data_; }
  /// Asks the kernel to put huge pages in the place of small ones. Where it cannot (before Linux 6.1), all works on.
  void collapse() const {
    constexpr int madv_collapse = 25;  // too new for some headers
    if (bytes_ >= huge_page) ::madvise(data_, bytes_ / huge_page * huge_page, madv_collapse);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Memory with a descriptor and no name: it can be handed to other processes, and is gone when the last of them is,
/// however they end. It grows at its end; every byte of it is really there, so that no access to it can fail later.
class memory_file {
 public:
  /// @param directory where to make it: empty for the kernel's own memory, which no mount limits; else a directory on a
  /// file system that has unnamed files, such as a tmpfs or a hugetlbfs
  explicit memory_file(std::string directory) : directory_(std::move(directory)) {}

  /// Appends so many bytes, zeroed, touched first by the thread that calls. The first call makes the file.
  /// @return where they begin, a multiple of the page size
  /// @throws error(errc::out_of_memory) with the bytes needed and available, or why the file cannot be made
  std::size_t grow(std::size_t bytes) {
    if (!file_) make();
    if (bytes > available()) refuse(bytes, "");
    if (bytes >= huge_page) size_ = (size_ + huge_page - 1) / huge_page * huge_page;
    int const failed = ::posix_fallocate(file_.get(), static_cast<off_t>(size_), static_cast<off_t>(bytes));
    if (failed != 0) refuse(bytes, std::strerror(failed));
    return std::exchange(size_, size_ + whole_pages(bytes));
  }
  /// Gives the memory of a part back; who reads it afterwards finds zeros.
  void punch(std::size_t offset, std::size_t bytes) {
    ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                static_cast<off_t>(whole_pages(bytes)));  // of a part of a page nothing is given back
  }
  /// The file; none before the first `grow`.
  descriptor const& file() const { return file_; }

 private:
  static std::size_t whole_pages(std::size_t bytes) {
    auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return (bytes + page - 1) / page * page;
  }
  void make() {
    file_ =
        descriptor(directory_.empty() ? static_cast<int>(::syscall(SYS_memfd_create, "ringlet", 1u /* MFD_CLOEXEC */))
                                      : ::open(directory_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600));
    if (!file_)
      throw error(errc::out_of_memory,
                  "making an unnamed file in " + (directory_.empty() ? "memory" : directory_) +
                      " failed: " + std::strerror(errno) +
                      (directory_.empty() ? "" : "; settings::directory must name a writable directory on a tmpfs"));
  }

  // Bytes that can still be had: of the file system, or of the machine.
  std::size_t available() const {
    if (!directory_.empty()) {
      struct statfs fs;
      if (::fstatfs(file_.get(), &fs) != 0 || fs.f_blocks == 0) return static_cast<std::size_t>(-1);  // no limit is set
      return static_cast<std::size_t>(fs.f_bavail) * static_cast<std::size_t>(fs.f_bsize);
    }
    descriptor const info(::open("/proc/meminfo", O_RDONLY | O_CLOEXEC));
    char text[1024] = {};
    if (!info || ::read(info.get(), text, sizeof text - 1) <= 0) return static_cast<std::size_t>(-1);
    char const* const found = std::strstr(text, "MemAvailable:");
    return found != nullptr ? std::strtoull(found + 13, nullptr, 10) << 10 : static_cast<std::size_t>(-1);
  }
  [[noreturn]] void refuse(std::size_t bytes, std::string const& reason) const {
    throw error(errc::out_of_memory,
                "a rank needs " + std::to_string(bytes) + " bytes of shared memory" +
                    (directory_.empty() ? "" : " in " + directory_) + ", and " + std::to_string(available()) +
                    " are available" + (reason.empty() ? "" : " (" + reason + ")") +
                    (directory_.empty() ? ": ask for less" : ": make room (docker: --shm-size), or ask for less"));
  }

  std::string directory_;
  descriptor file_;
  std::size_t size_ = 0;
};

}  // namespace ringlet
