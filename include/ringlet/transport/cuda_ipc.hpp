// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringlet/call.hpp"
#include "ringlet/clock.hpp"
#include "ringlet/error.hpp"
#include "ringlet/kernel.hpp"
#include "ringlet/transport.hpp"
#include "ringlet/transport/device_memory.hpp"
#include "ringlet/transport/device_runtime.hpp"
#include "ringlet/transport/device_segment.hpp"
#include "ringlet/transport/device_settings.hpp"
#include "ringlet/transport/device_windows.hpp"
#include "ringlet/transport/shared_memory.hpp"
#include "ringlet/transport/slot_ring.hpp"

namespace ringlet {

class cuda_runtime;

/// Ranks with a device each, or with one device among them, on one machine.
///
/// What is on the host goes through `shared_memory`, which this is besides. What is on devices goes by way of a segment
/// that each rank allocates there and shares with the others: memory of users is never shared unless it is from
/// `communicator::allocate`. Whether devices reach each other is tried before first use, and agreed: if any does not,
/// segments lie in memory of the host that all devices reach, and `why_through_host()` says why.
///
/// The device is the one that is current when a rank connects. Calls on streams return at once; one at a time is under
/// way on a communicator, whatever streams they are on. A fault shows at the next call, or in `wait(on(stream), comm)`.
/// When it goes, it waits for what it has started and for the other ranks to let go of its memory, for up to a second.
/// @tparam R the runtime: `cuda_runtime`, or `emulated_runtime`
template <class R = cuda_runtime>
class cuda_ipc : public shared_memory {
 public:
  using runtime = R;
  using stream = typename R::stream;
  using settings = device_settings;

  /// As `transport` says.
  /// @throws error(errc::unsupported) when a rank has no device, or one that reaches neither the others nor the host's
  ///   memory
  template <meeting M>
  cuda_ipc(M& m, settings const& s, time_point until)
      : shared_memory(m, checked(m, s, until).host, until), settings_(s) {
    open_pages(m, until);
    open_segments(m, until);
    set_up_lanes();
  }
  cuda_ipc(cuda_ipc const&) = delete;
  ~cuda_ipc() { let_go(); }

  // As `transport` says; faults and the number of calls also go where devices and their hosts look.
  void tell(fault const& f) {
    shared_memory::tell(f);
    for (auto* const page : pages_) page->stop.is.release(1 + static_cast<std::uint64_t>(rank()));
  }
  void finish(std::uint64_t sequence) {
    pages_[static_cast<std::size_t>(rank())]->left.is.release(1 + calls_);
    shared_memory::finish(sequence);
  }

  /// Why what is on devices travels through memory of the host; empty where devices reach each other. The same on all
  /// ranks.
  std::string const& why_through_host() const { return why_through_host_; }
  /// Whether streams wait between small kernels (`device_form::stream`). The same on all ranks.
  bool stream_driven() const { return stream_driven_; }
  /// By rank.
  std::vector<device_id> const& devices() const { return devices_; }
  /// Settings of what is on devices.
  settings const& on_device() const { return settings_; }

  // For `allocate`: memory on the device, which the other ranks reach too, if they reach any.
  template <class Exchange>
  std::byte* open_window(std::size_t bytes, Exchange&& positions_of) {
    on_my_device const here(device_);
    std::byte* mine = nullptr;
    try {
      mine = windows_.open(rank(), bytes, why_through_host_.empty(), positions_of);
    } catch (error const&) {  // memory of who has ended cannot be opened: then that is what was wrong
      for (int peer = 0; peer < size(); ++peer)
        if (peer != rank() && ended(peer))
          throw error(errc::peer_lost, detail::words("rank %d has ended, and with it memory for all", peer), peer);
      throw;
    }
    if (std::uint64_t const number = windows_.latest(); number != 0 && size() <= most_device_peers) {
      auto const parts = windows_.latest_parts();
      R::copy(side_.get(), window_table() + (number - 1) * most_device_peers, parts.data(),
              parts.size() * sizeof parts[0]);
      R::synchronise(side_.get());
    }
    return mine;
  }
  void close_window(std::byte* p) { windows_.close(p); }
  /// For calls that the host runs: throws where memory is from `allocate`, and so on the device.
  /// @throws error(errc::invalid_argument)
  void refuse_on_device(void const* p) const {
    if (windows_.hold(p))
      throw error(errc::invalid_argument,
                  "this memory is on a device, out of the host's reach: say on(stream), or copy it first");
  }

  // What the calls on streams need (on_stream.hpp). Addresses are those of this rank's device.

  /// This rank's lanes, for kernels; with streams that wait for values, one, whose slots are as large as all lanes'
  /// together.
  device_lane* device_lanes() const { return reinterpret_cast<device_lane*>(segment(rank())); }
  device_layout const& layout() const { return layout_; }
  /// The first lane as the host knows it, with addresses of the device.
  device_lane first_lane() const { return view(0); }
  /// How many blocks of the step that is running have come to its end; 0 between steps.
  std::uint32_t* blocks_arrived() const { return reinterpret_cast<std::uint32_t*>(segment(rank()) + layout_.bytes()); }
  /// Where memory of this rank's device lies, for the other ranks' devices: in which window of
  /// `communicator::allocate`, if any.
  position locate_on_device(void const* p, std::size_t bytes) const { return windows_.locate(p, bytes); }
  /// In memory of the device: where its windows' parts are, `most_device_peers` addresses for each.
  std::byte** window_table() const {
    return reinterpret_cast<std::byte**>(segment(rank()) + layout_.bytes() + interference);
  }
  /// One byte a rank, for barriers.
  std::uint8_t* barrier_cells() const {
    return reinterpret_cast<std::uint8_t*>(window_table() + device_windows<R>::most * most_device_peers);
  }
  /// Runs `launches()`, which puts a call into a stream, after the calls before it, whatever streams those were put
  /// into.
  template <class F>
  void in_order(stream s, call const& called, F&& launches) {
    on_my_device const here(device_);
    if (R::capturing(s)) return launches();  // a graph is ordered by whoever launches it
    if (calls_ != 0) R::wait(s, done_.get());
    auto has_been_put = [&] {
      R::record(done_.get(), s);
      pages_[static_cast<std::size_t>(rank())]->latest.say(++calls_, called);
    };
    try {
      launches();
    } catch (...) {
      has_been_put();  // a part of it may be in the stream, and needs this rank's memory
      throw;
    }
    has_been_put();
  }
  /// What a block of any rank has reported, if it was the first to give up: whom others told to stop says so only.
  struct reported {
    kernel_report const* by_block = nullptr;
    int rank = -1;
  };
  reported report() const {
    for (int r = 0; r < size(); ++r)
      for (auto const& each : pages_[static_cast<std::size_t>(r)]->reports) {
        auto const why = kernel_report::verdict::unpack(each.said.acquire()).why;
        if (why != kernel_fault::none && why != kernel_fault::stopped) return {&each, r};
      }
    return {};
  }
  /// A rank that has made as many calls as this one, but another one last, or -1.
  int other_than(call& mine, call& theirs) const {
    pages_[static_cast<std::size_t>(rank())]->latest.is(calls_, mine);
    for (int peer = 0; peer < size(); ++peer)
      if (pages_[static_cast<std::size_t>(peer)]->latest.is(calls_, theirs) && !(theirs == mine)) return peer;
    return -1;
  }
  /// A rank that has ended, or left before it made as many calls as this one, or -1.
  int lost_on_device() const {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      bool const over = ended(peer);  // looked at first: who leaves in good order says so before it ends
      std::uint64_t const left = pages_[static_cast<std::size_t>(peer)]->left.is.acquire();
      if (left == 0 ? over : left - 1 < calls_) return peer;
    }
    return -1;
  }
  /// Lets the stream go on where it waits for other ranks in vain: steps that find `stop` set do nothing.
  void release_waits() {
    on_my_device const here(device_);
    constexpr std::uint64_t beyond = std::uint64_t{1} << 62;  // streams compare differences as signed numbers
    device_lane const lane = first_lane();
    word* const mine[] = {lane.next.credit, lane.prev.filled};
    for (word* w : mine) R::copy(side_.get(), w, &beyond, sizeof beyond);
    R::synchronise(side_.get());
  }

  /// A number that changes while streams get on in a call, where they wait for values.
  std::uint64_t moves() {
    on_my_device const here(device_);
    std::uint64_t seen[2] = {};
    device_lane const lane = first_lane();
    R::copy(side_.get(), &seen[0], lane.next.credit, sizeof seen[0]);
    R::copy(side_.get(), &seen[1], lane.prev.filled, sizeof seen[1]);
    R::synchronise(side_.get());
    return seen[0] + seen[1];
  }
  // How many slices have been put into streams, and taken out of them, where streams wait for values.
  std::uint64_t sent = 0, received = 0;

 private:
  // In memory of the host, that all hosts and all devices reach.
  struct host_page {
    lone_word stop;    // this rank's kernels are to give up: 1 + who says so
    lone_word left;    // how many calls this rank had made when it left, plus 1
    lone_word closed;  // it has let go of the others' memory
    latest_call latest;
    kernel_report reports[64];  // by lane
  };
  // Makes the communicator's device the current one for a while.
  class on_my_device {
   public:
    explicit on_my_device(int device) : before_(R::device()) {
      if (before_ != device) R::use(device), changed_ = true;
    }
    on_my_device(on_my_device const&) = delete;
    ~on_my_device() {
      if (changed_) try {
          R::use(before_);
        } catch (error const&) {  // what has failed says so at the caller's next call
        }
    }

   private:
    int before_;
    bool changed_ = false;
  };

  template <meeting M>
  static settings const& checked(M& m, settings const& s, time_point until) {
    s.check();
    char const* mine = "";
    if (R::devices() == 0)
      mine = "finds no device";
    else if (s.form == device_form::stream && !R::waits_for_values())
      mine = "has no streams that wait for values, as device_form::stream was told to use,";
    auto const lacks = m.exchange("cuda_ipc/devices", mine, until);
    for (std::size_t r = 0; r < lacks.size(); ++r)
      if (!lacks[r].empty())
        throw error(errc::unsupported, detail::words("%s %.99s at rank %zu", R::name, lacks[r].c_str(), r),
                    static_cast<int>(r));
    return s;
  }
  std::byte* segment(int peer) const { return segments_[static_cast<std::size_t>(peer)].data(); }
  static device_layout layout_for(settings const& s, int size, bool stream_driven) {
    device_layout l;
    l.ranks = size;
    l.lanes = stream_driven ? 1 : static_cast<unsigned>(s.lanes);
    l.slots = s.slots;
    l.line_count = s.line_count;
    l.stage_bytes = s.stage_bytes;
    l.slot_bytes = stream_driven ? s.slot_bytes * s.lanes : s.slot_bytes;
    return l;
  }
  // Bytes of a segment, whichever form it will be: the layout, and behind it a counter, windows and the cells of
  // barriers.
  std::size_t segment_size() const {
    return std::max(layout_for(settings_, size(), false).bytes(), layout_for(settings_, size(), true).bytes()) +
           interference + device_windows<R>::most * most_device_peers * sizeof(std::byte*) +
           static_cast<std::size_t>(size());
  }
  device_lane view(unsigned lane) const {
    std::vector<std::byte*> all;
    for (auto const& s : segments_) all.push_back(s.data());
    device_lane v = layout_.view(rank(), lane, all.data());
    // What hosts and devices tell each other lies where both reach it at any time.
    auto page = [&](int r) { return reinterpret_cast<host_page*>(device_pages_[static_cast<std::size_t>(r)].data()); };
    v.stop = &page(rank())->stop;
    v.next_stop = &page((rank() + 1) % size())->stop;
    v.prev_stop = &page((rank() + size() - 1) % size())->stop;
    v.report = &page(rank())->reports[lane];
    return v;
  }
  template <meeting M>
  std::byte* host_window(M& m, std::size_t bytes, char const* name, time_point until) {
    return shared_memory::open_window(bytes, [&]<class Part>(Part const& mine) {
      auto const texts = m.exchange(name, std::string(reinterpret_cast<char const*>(&mine), sizeof mine), until);
      std::vector<Part> parts(texts.size(), mine);
      for (std::size_t r = 0; r < parts.size(); ++r)
        std::memcpy(&parts[r], texts[r].data(), std::min(sizeof mine, texts[r].size()));
      return parts;
    });
  }
  template <meeting M>
  void open_pages(M& m, time_point until) {
    std::byte* const mine = host_window(m, sizeof(host_page), "cuda_ipc/pages", until);
    position const where = locate(mine, sizeof(host_page));
    for (int peer = 0; peer < size(); ++peer) pages_.push_back(shared_memory::at<host_page>(peer, where));
    agree(m, "cuda_ipc/host", until, [&] {
      for (auto* const page : pages_) device_pages_.push_back(device_memory<R>::map(page, sizeof(host_page)));
    });
  }
  template <meeting M>
  void open_segments(M& m, time_point until) {
    auto all = share_segments<R>(m, segment_size(), settings_.through_host ? "it was asked for" : "", until);
    devices_ = std::move(all.devices);
    segments_ = std::move(all.parts);
    why_through_host_ = std::move(all.why_not);
    if (!why_through_host_.empty()) {
      std::byte* const mine = host_window(m, segment_size(), "cuda_ipc/staging", until);
      position const where = locate(mine, segment_size());
      agree(m, "cuda_ipc/staged", until, [&] {
        for (int peer = 0; peer < size(); ++peer)
          segments_.push_back(device_memory<R>::map(shared_memory::at<std::byte>(peer, where), segment_size()));
      });
    }
    bool shared = false;
    for (std::size_t i = 0; i < devices_.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) shared = shared || devices_[i] == devices_[j];
    stream_driven_ = settings_.form == device_form::stream ||
                     (settings_.form == device_form::automatic && shared && all.all_wait_for_values);
  }
  // Runs what may fail on one rank alone; then all throw.
  template <meeting M, class F>
  void agree(M& m, char const* name, time_point until, F&& f) {
    std::string why;
    try {
      f();
    } catch (error const& e) {
      why = e.words().substr(0, 255);
    }
    auto const all = m.exchange(name, why, until);
    for (std::size_t r = 0; r < all.size(); ++r)
      if (!all[r].empty())
        throw error(errc::unsupported,
                    "rank " + std::to_string(r) + "'s device does not reach memory of the host: " + all[r],
                    static_cast<int>(r));
  }
  void set_up_lanes() {
    layout_ = layout_for(settings_, size(), stream_driven_);
    std::vector<device_lane> lanes;
    for (unsigned i = 0; i < layout_.lanes; ++i) lanes.push_back(view(i));
    R::copy(side_.get(), device_lanes(), lanes.data(), lanes.size() * sizeof(device_lane));
    R::synchronise(side_.get());
  }
  void let_go() noexcept;

  settings settings_;
  int device_ = R::device();
  pid_t process_ = ::getpid();
  device_layout layout_;
  std::vector<host_page*> pages_;  // by rank
  std::vector<device_memory<R>> device_pages_;
  std::string why_through_host_;
  std::vector<device_id> devices_;
  std::vector<device_memory<R>> segments_;  // by rank
  bool stream_driven_ = false;
  device_windows<R> windows_;
  std::uint64_t calls_ = 0;
  device_stream<R> side_;  // for what cannot wait for the caller's streams
  device_event<R> done_;   // the latest call
};

template <class R>
void cuda_ipc<R>::let_go() noexcept {
  using clock = std::chrono::steady_clock;
  auto leave_all = [&] {
    for (auto& p : device_pages_) p.leave();
    for (auto& s : segments_) s.leave();
    windows_.leave();
  };
  if (::getpid() != process_) return leave_all();  // a fork of the rank is no rank
  try {
    on_my_device const here(device_);
    auto over = [&](auto&& what) {
      for (auto const end = clock::now() + std::chrono::seconds(1); !what(); ::sched_yield())
        if (clock::now() > end) return false;
      return true;
    };
    auto started_is_over = [&] {
      if (calls_ == 0 || R::passed(done_.get())) return true;
      if (stream_driven_ && told() != nullptr) release_waits();
      return false;
    };
    bool quiet = over(started_is_over);
    if (!quiet) {
      if (told() == nullptr)
        tell(fault(errc::aborted, rank(), "rank %d left with a call on its device unfinished", rank()));
      quiet = over(started_is_over);
    }
    if (!quiet) return leave_all();
    auto const me = static_cast<std::size_t>(rank());
    device_memory<R> own = std::move(segments_[me]);
    segments_.clear();
    windows_.let_go_of_peers();
    pages_[me]->closed.is.release(1);
    if (!over([&] {
          for (int peer = 0; peer < size(); ++peer)
            if (peer != rank() && pages_[static_cast<std::size_t>(peer)]->closed.is.acquire() == 0 && !ended(peer))
              return false;
          return true;
        }))
      own.leave(), windows_.leave();
  } catch (error const&) {  // the device has failed, and what it held is gone with it
    leave_all();
  }
}

}  // namespace ringlet
