// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/all_gather.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/element.hpp"
#include "ringlet/error.hpp"

namespace ringlet {

namespace detail {

// All ranks must ask for as much.
template <class Wish>
void check_alike(std::vector<Wish> const& all) {
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r].bytes != all[0].bytes)
      throw error(errc::mismatch,
                  words("rank %zu allocates %llu bytes, rank 0 %llu: allocate is a collective", r,
                        static_cast<unsigned long long>(all[r].bytes), static_cast<unsigned long long>(all[0].bytes)),
                  static_cast<int>(r));
}

// Opens a window of as many bytes on all ranks, which tell each other where their parts are.
template <class X, int Size>
std::byte* open_window(communicator<X, Size>& comm, std::size_t bytes) {
  return comm.transport().open_window(bytes, [&]<class Part>(Part const& mine) {
    struct wish {
      Part part;
      std::uint64_t bytes;
    };
    std::vector<wish> all(static_cast<std::size_t>(comm.size()));
    all[static_cast<std::size_t>(comm.rank())] = {mine, bytes};
    all_gather(comm, all);
    check_alike(all);
    std::vector<Part> parts;
    for (auto const& wish : all) parts.push_back(wish.part);
    return parts;
  });
}
// The same for a transport without windows, whose ranks have ordinary memory.
template <class X, int Size>
void agree_on(communicator<X, Size>& comm, std::size_t bytes) {
  struct wish {
    std::uint64_t bytes;
  };
  std::vector<wish> all(static_cast<std::size_t>(comm.size()));
  all[static_cast<std::size_t>(comm.rank())] = {bytes};
  all_gather(comm, all);
  check_alike(all);
}

}  // namespace detail

/// Memory from `communicator::allocate`: a contiguous range that its owner alone resizes, never, and gives back when it
/// goes. It must go before its communicator does, and not while an operation uses it.
/// @tparam T the element
/// @tparam X the transport
template <class T, class X>
class allocation {
 public:
  allocation(allocation&& other) noexcept
      : from_(other.from_), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  allocation& operator=(allocation&& other) noexcept {
    std::swap(from_, other.from_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~allocation() {
    if (data_ == nullptr) return;
    if constexpr (windows)
      from_->close_window(reinterpret_cast<std::byte*>(data_));
    else
      ::operator delete(data_, alignment);
  }

  // As of any contiguous range; `size` in elements.
  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  T& operator[](std::size_t i) const { return data_[i]; }

 private:
  template <transport, int>
  friend class communicator;

  static constexpr bool windows = requires(X & x, std::byte* p) { x.close_window(p); };
  static constexpr std::align_val_t alignment{alignof(T) > 4096 ? alignof(T) : 4096};

  template <int Size>
  allocation(communicator<X, Size>& comm, std::size_t count) : from_(&comm.transport()), size_(count) {
    if (count > static_cast<std::size_t>(-1) / 2 / sizeof(T))
      throw error(
          errc::invalid_argument,
          detail::words("allocate of %zu elements of %zu bytes is more than memory can hold", count, sizeof(T)));
    std::size_t const bytes = count != 0 ? count * sizeof(T) : 1;  // nothing is something: all ranks meet for it
    if constexpr (windows) {
      data_ = reinterpret_cast<T*>(detail::open_window(comm, bytes));
    } else {
      detail::agree_on(comm, bytes);
      data_ = static_cast<T*>(std::memset(::operator new(bytes, alignment), 0, bytes));
    }
  }

  X* from_;
  T* data_ = nullptr;
  std::size_t size_;
};

template <transport X, int Size>
template <element T>
allocation<T, X> communicator<X, Size>::allocate(std::size_t count) {
  return allocation<T, X>(*this, count);
}

}  // namespace ringlet
