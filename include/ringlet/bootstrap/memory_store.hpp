// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#include "ringlet/clock.hpp"
#include "ringlet/store.hpp"

namespace ringlet {

/// A store for the threads of this process and for processes that are forked from it after the store was made.
/// Any number of threads may use one object at a time. The memory is an anonymous mapping: it has no name, and is
/// gone with the last process that has it, however that ends.
///
/// Keys are spread over lists that only grow at their heads. A record is written in memory that nobody else
/// sees and then put at the head with one compare-and-swap; so there is no lock that a killed process could hold, and
/// no record that is half there. The head is also the word on which waiters sleep. Space is never given back.
class memory_store {
 public:
  /// @param bytes room for all keys and values together, each with about 24 bytes more. Memory is used as it fills.
  /// @throws error(errc::out_of_memory) when the system refuses the mapping
  explicit memory_store(std::size_t bytes = std::size_t{64} << 20) : bytes_(sizeof(header) + bytes) {
    if (bytes_ / grain > UINT32_MAX) {
      throw error(errc::invalid_argument, "a memory_store of " + std::to_string(bytes) + " bytes: 32 GiB is the most");
    }
    base_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base_ == MAP_FAILED) {
      throw error(errc::out_of_memory, "mapping " + std::to_string(bytes_) + " bytes of shared memory for a " +
                                           "memory_store failed: " + std::strerror(errno));
    }
    header_ = new (base_) header;
    header_->used.store(in_grains(sizeof(header)), std::memory_order_relaxed);
  }
  memory_store(memory_store const&) = delete;
  memory_store& operator=(memory_store const&) = delete;
  ~memory_store() { ::munmap(base_, bytes_); }

  /// As the contract of `store` says.
  /// @throws error(errc::out_of_memory) when the store has no room left for this key and value
  bool set(std::string_view key, std::string_view value) {
    std::size_t const hash = std::hash<std::string_view>{}(key);
    std::atomic<std::uint32_t>& head = header_->heads[hash % lists];
    std::uint32_t seen = head.load(std::memory_order_acquire);
    if (find(seen, hash, key)) return false;
    std::uint32_t const mine = write(hash, key, value);
    do {
      // Only what was put in since the last look can hold the key, but lists are short: look at all of it.
      if (find(seen, hash, key)) return false;
      at(mine)->next = seen;
    } while (!head.compare_exchange_weak(seen, mine, std::memory_order_acq_rel, std::memory_order_acquire));
    futex(head, FUTEX_WAKE, INT32_MAX, nullptr);
    return true;
  }

  /// As the contract of `store` says.
  std::string get(std::string_view key, time_point deadline) {
    using namespace std::chrono;
    std::size_t const hash = std::hash<std::string_view>{}(key);
    std::atomic<std::uint32_t>& head = header_->heads[hash % lists];
    for (;;) {
      std::uint32_t const seen = head.load(std::memory_order_acquire);
      if (auto value = find(seen, hash, key)) return std::string(*value);
      nanoseconds const left = deadline - steady_clock::now();
      if (left <= nanoseconds::zero()) {
        throw error(errc::timed_out, "nobody has set the key '" + std::string(key) + "' in time");
      }
      // A process that is killed after it changed the head wakes nobody: look again now and then.
      nanoseconds const nap = left < milliseconds(100) ? left : milliseconds(100);
      timespec const wait{static_cast<std::time_t>(nap / seconds(1)), static_cast<long>((nap % seconds(1)).count())};
      futex(head, FUTEX_WAIT, seen, &wait);
    }
  }

 private:
  static constexpr std::size_t lists = 1024;
  static constexpr std::size_t grain = 8;  // places are told in grains, so that they fit the 32 bits of a futex

  struct record {
    std::size_t hash;
    std::uint64_t value_size;
    std::uint32_t key_size;
    std::uint32_t next;  // the place of the next record of this list, or 0; key and value follow
  };
  struct header {
    std::atomic<std::uint64_t> used{};  // grains
    std::atomic<std::uint32_t> heads[lists]{};
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

  static constexpr std::uint64_t in_grains(std::uint64_t bytes) { return (bytes + grain - 1) / grain; }
  record* at(std::uint32_t place) const {
    return reinterpret_cast<record*>(static_cast<std::byte*>(base_) + place * grain);
  }

  std::optional<std::string_view> find(std::uint32_t place, std::size_t hash, std::string_view key) const {
    for (; place != 0; place = at(place)->next) {
      record const& r = *at(place);
      char const* const text = reinterpret_cast<char const*>(&r + 1);
      if (r.hash == hash && std::string_view(text, r.key_size) == key) {
        return std::string_view(text + r.key_size, r.value_size);
      }
    }
    return std::nullopt;
  }

  // Writes a record that no list holds yet.
  std::uint32_t write(std::size_t hash, std::string_view key, std::string_view value) {
    std::uint64_t const room = bytes_ / grain;
    std::uint64_t const need = in_grains(sizeof(record) + key.size() + value.size());
    std::uint64_t place = header_->used.load(std::memory_order_relaxed);
    do {
      if (need > room - place) {
        throw error(errc::out_of_memory, "the memory_store of " + std::to_string(bytes_) + " bytes is full: the key '" +
                                             std::string(key) + "' needs " + std::to_string(need * grain) + ", " +
                                             std::to_string((room - place) * grain) + " are left");
      }
    } while (!header_->used.compare_exchange_weak(place, place + need, std::memory_order_relaxed));
    auto const mine = static_cast<std::uint32_t>(place);
    record* const r = new (at(mine)) record{hash, value.size(), static_cast<std::uint32_t>(key.size()), 0};
    char* const text = reinterpret_cast<char*>(r + 1);
    key.copy(text, key.size());
    value.copy(text + key.size(), value.size());
    return mine;
  }

  // Not the process-private kind: waiters may be other processes.
  static void futex(std::atomic<std::uint32_t>& word, int verb, std::uint32_t number, timespec const* wait) {
    ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), verb, number, wait, nullptr, 0);
  }

  std::size_t bytes_;
  void* base_ = nullptr;
  header* header_ = nullptr;
};

}  // namespace ringlet
