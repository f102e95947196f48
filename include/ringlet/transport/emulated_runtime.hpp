// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ringlet/emulated_kernel.hpp"
#include "ringlet/error.hpp"
#include "ringlet/kernel.hpp"
#include "ringlet/transport/device_runtime.hpp"
#include "ringlet/transport/memory_file.hpp"
#include "ringlet/transport/slot_ring.hpp"

namespace ringlet {

/// What an emulated machine has, and what it cannot do.
struct emulated_machine {
  int devices = 8;               ///< of one process; device d is the same one in all processes
  unsigned members = 2;          ///< host threads that play a block
  bool shares = true;            ///< memory has handles (not so: memory of a virtual-memory pool)
  bool opens = true;             ///< handles of others can be opened (not so: isolated containers)
  bool reaches = true;           ///< devices reach each other (not so: parts of a device that are isolated, MIG)
  bool true_mappings = true;     ///< what is opened is the peer's memory (not so: an IOMMU in the way)
  bool maps_host = true;         ///< devices reach memory of the host
  bool waits_for_values = true;  ///< streams can wait for values
};

/// A stand-in for CUDA on a machine without a GPU: a `device_runtime` whose device memory is memory of the host, whose
/// streams are threads, and whose blocks are teams of threads. It is strict where CUDA is, so that what works here has
/// used CUDA rightly; it says nothing about speed, and cannot show what only a device does (caches, lazy loading,
/// launch limits).
///
/// Memory is an unnamed file for each allocation, which other processes open through /proc by the number of its owner:
/// nothing is left behind, however a process ends, and what its owner has released or left can be opened no more.
class emulated_runtime {
  struct stream_state;
  struct event_state;

 public:
  static constexpr char const* name = "emulated";

  /// The machine; to be changed before the first call.
  static inline emulated_machine here;

  using stream = stream_state*;
  using event = std::shared_ptr<event_state>;
  /// Where the file of an allocation is to be found, and by which numbers it is recognised.
  struct handle {
    std::int32_t process, file;
    std::uint64_t device, number, bytes;
  };

  // As `device_runtime` says.
  static int devices() { return here.devices; }
  static int device() { return current(); }
  static void use(int d) {
    if (d < 0 || d >= here.devices) fail("use: there is no such device");
    current() = d;
  }
  static device_id id(int d) {
    device_id i;
    std::memcpy(i.bytes, "emulated", 8);
    i.bytes[15] = static_cast<unsigned char>(d);
    return i;
  }
  static bool can_access(int d, device_id const& other) { return here.reaches || id(d) == other; }
  static void enable_access(device_id const& other) {
    if (!can_access(device(), other)) fail("enable_access: peer access is not supported between these two devices");
  }

  static void* allocate(std::size_t bytes) {
    auto& s = state();
    memory_file file("");
    file.grow(bytes);
    mapping memory(file.file(), 0, bytes);
    auto* const p = memory.data();
    std::lock_guard const lock(s.mutex);
    s.own.emplace(p, owned{std::move(file), std::move(memory), bytes});
    return p;
  }
  static void release(void* p) {
    auto& s = state();
    std::lock_guard const lock(s.mutex);
    if (s.own.erase(static_cast<std::byte*>(p)) == 0) fail("release: not the base of an allocation");
  }
  static std::pair<void*, std::size_t> block_of(void const* p) {
    auto& s = state();
    std::lock_guard const lock(s.mutex);
    auto const found = find(s, p);
    return {found->first, found->second.bytes};
  }
  static handle share(void const* p) {
    if (!here.shares) fail("share: invalid argument (this memory has no handles)");
    auto& s = state();
    std::lock_guard const lock(s.mutex);
    auto const found = find(s, p);
    int const fd = found->second.file.file().get();
    struct stat now {};
    ::fstat(fd, &now);
    return {::getpid(), fd, now.st_dev, now.st_ino, found->second.bytes};
  }
  static void* open(handle const& h) {
    auto& s = state();
    if (h.process == ::getpid()) fail("open: invalid device context (the handle is this process's own)");
    if (!here.opens) fail("open: invalid resource handle (its owner is isolated from this process)");
    std::lock_guard const lock(s.mutex);
    auto const key = std::pair(h.device, h.number);
    if (auto const found = s.opened.find(key); found != s.opened.end()) {
      ++found->second.times;
      return found->second.memory.data();
    }
    descriptor file(
        ::open(("/proc/" + std::to_string(h.process) + "/fd/" + std::to_string(h.file)).c_str(), O_RDWR | O_CLOEXEC));
    struct stat now {};
    if (!file || ::fstat(file.get(), &now) != 0 || now.st_dev != h.device || now.st_ino != h.number)
      fail("open: invalid resource handle (its owner has ended, or has released the memory)");
    memory_file other("");
    if (!here.true_mappings) other.grow(h.bytes);
    mapping memory(here.true_mappings ? file : other.file(), 0, h.bytes);
    return s.opened.emplace(key, imported{std::move(memory), 1}).first->second.memory.data();
  }
  static void close(void* p) {
    auto& s = state();
    std::lock_guard const lock(s.mutex);
    for (auto i = s.opened.begin(); i != s.opened.end(); ++i)
      if (i->second.memory.data() == p) {
        if (--i->second.times == 0) s.opened.erase(i);
        return;
      }
    fail("close: nothing was opened there");
  }
  static void* map_host(void* p, std::size_t) {
    state();
    if (!here.maps_host) fail("map_host: operation not supported");
    return p;
  }
  static void unmap_host(void*) { state(); }

  static stream make_stream() {
    state();
    auto made = std::make_shared<stream_state>();
    made->self = made;
    std::thread([made] { made->work(); }).detach();
    return made.get();
  }
  static void destroy(stream s) {
    auto const last = std::move(s->self);
    std::lock_guard const lock(s->mutex);
    s->ends = true;
    s->more.notify_all();
  }
  static void synchronise(stream s) {
    std::unique_lock lock(s->mutex);
    if (s->into != nullptr) fail("synchronise: operation not permitted when stream is capturing");
    s->less.wait(lock, [&] { return s->todo.empty() && !s->busy; });
    s->check();
  }
  static bool idle(stream s) {
    std::lock_guard const lock(s->mutex);
    if (s->into != nullptr) fail("idle: operation not permitted when stream is capturing");
    s->check();
    return s->todo.empty() && !s->busy;
  }
  static void copy(stream s, void* to, void const* from, std::size_t bytes) {
    s->put([=] {
      bool const a_word = bytes == sizeof(word) &&
                          (reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) % bytes == 0;
      if (a_word)  // devices copy an aligned word whole
        static_cast<word*>(to)->release(static_cast<word const*>(from)->acquire());
      else
        std::memcpy(to, from, bytes);
    });
  }
  static void fill(stream s, void* to, int byte, std::size_t bytes) {
    s->put([=] { std::memset(to, byte, bytes); });
  }
  static event make_event() { return std::make_shared<event_state>(); }
  static void destroy(event const&) {}
  static void record(event const& e, stream s) {
    std::uint64_t const k = ++e->recorded;
    s->put([e, k] { e->completed.store(k, std::memory_order_release); });
  }
  static bool passed(event const& e) { return e->completed.load(std::memory_order_acquire) >= e->recorded.load(); }
  static void wait(stream s, event const& e) {
    s->put([e, k = e->recorded.load()] {
      for (unsigned i = 0; e->completed.load(std::memory_order_acquire) < k; ++i) detail::give_way(i);
    });
  }
  static bool waits_for_values() { return here.waits_for_values; }
  static void wait_value(stream s, void* p, std::uint64_t v) {
    if (!here.waits_for_values) fail("wait_value: operation not supported");
    s->put([at = static_cast<word*>(p), v] {
      for (unsigned i = 0; static_cast<std::int64_t>(at->acquire() - v) < 0; ++i) detail::give_way(i);
    });
  }
  static void write_value(stream s, void* p, std::uint64_t v) {
    s->put([at = static_cast<word*>(p), v] { at->release(v); });
  }

  template <class Body>
  static void prepare() {
    state();
  }
  template <class Body>
  static unsigned blocks_at_once(unsigned) {
    return 64;
  }
  template <kernel_body Body>
  static void launch(stream s, unsigned blocks, unsigned threads, Body const& body) {
    if (blocks == 0 || threads == 0 || threads > 1024) fail("launch: invalid configuration");
    if (blocks > blocks_at_once<Body>(threads)) fail("launch: too many blocks in cooperative launch");
    s->put([=, members = here.members] { run_on_threads(blocks, members, body); });
  }

  // Graphs, for tests: what is put into a stream is kept, to be run as often as one likes.
  using graph = std::vector<std::function<void()>>;
  static bool capturing(stream s) { return s->into != nullptr; }
  static void begin_capture(stream s) { s->into = std::make_unique<graph>(); }
  static graph end_capture(stream s) { return std::move(*std::exchange(s->into, nullptr)); }
  static void replay(stream s, graph const& g) {
    for (auto const& f : g) s->put(f);
  }

 private:
  struct event_state {
    std::atomic<std::uint64_t> recorded{0}, completed{0};
  };
  struct stream_state {
    std::mutex mutex;
    std::condition_variable more, less;
    std::deque<std::function<void()>> todo;
    bool busy = false, ends = false;
    std::string failure;
    std::unique_ptr<graph> into;  // while capturing
    std::shared_ptr<stream_state> self;

    void put(std::function<void()> f) {
      if (into != nullptr) return into->push_back(std::move(f));
      std::lock_guard const lock(mutex);
      check();
      todo.push_back(std::move(f));
      more.notify_one();
    }
    void check() const {
      if (!failure.empty()) fail(failure.c_str());
    }
    void work() {
      for (std::unique_lock lock(mutex);;) {
        more.wait(lock, [&] { return ends || !todo.empty(); });
        if (todo.empty()) return;
        auto f = std::move(todo.front());
        todo.pop_front();
        busy = true;
        lock.unlock();
        std::string why;
        try {
          f();
        } catch (std::exception const& e) {
          why = e.what();
        }
        f = nullptr;
        lock.lock();
        busy = false;
        if (failure.empty()) failure = why;
        if (todo.empty()) less.notify_all();
      }
    }
  };
  struct owned {
    memory_file file;
    mapping memory;
    std::size_t bytes;
  };
  struct imported {
    mapping memory;
    int times;
  };
  struct registry {
    std::mutex mutex;
    std::map<std::byte*, owned> own;
    std::map<std::pair<std::uint64_t, std::uint64_t>, imported> opened;
    pid_t const process = ::getpid();
  };

  [[noreturn]] static void fail(char const* words) {
    throw error(errc::unsupported, std::string("the emulated runtime says: ") + words);
  }
  static registry& state() {
    static registry& s = *new registry;  // streams may outlive static objects
    if (s.process != ::getpid()) fail("initialization error (it was used before the process was forked)");
    return s;
  }
  static int& current() {
    static thread_local int d = 0;
    return d;
  }
  static std::map<std::byte*, owned>::iterator find(registry& s, void const* p) {
    auto found = s.own.upper_bound(static_cast<std::byte*>(const_cast<void*>(p)));
    if (found == s.own.begin() || (--found, static_cast<std::byte const*>(p) >= found->first + found->second.bytes))
      fail("no allocation lies there");
    return found;
  }
};

static_assert(device_runtime<emulated_runtime>);

}  // namespace ringlet
