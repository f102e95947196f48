// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "ringlet/error.hpp"
#include "ringlet/transport/fabric_library.hpp"

namespace ringlet {

/// What stays with the provider from the start of a transfer to its end. Never moved.
struct fabric_ticket {
  /// What a transfer was for, and so what its end means.
  enum class use : std::uint8_t { send, word, slot, filler, pair };

  fi_context2 room{};  ///< the provider's own
  use what = use::send;
  bool out = false;  ///< the provider has it
  int peer = -1;     ///< the rank at the other end, as far as it is known
  int lane = 0, slot = 0;
};

/// One endpoint of libfabric, with all that belongs to it: domain, completion queue, addresses, registered memory. It
/// goes as a whole. One thread at a time.
///
/// Nothing here waits. What cannot be taken now is answered with `later`: the caller polls and comes again. After a
/// failure the endpoint is not touched any more, since some providers crash when they are polled after a peer's end.
class fabric_endpoint {
 public:
  /// Memory that the provider may use, and, if `remote`, that peers may write to.
  struct region {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    fid_mr* mr = nullptr;
    void* descriptor = nullptr;
    std::uint64_t key = 0, base = 0;  ///< what a peer must name to write to the first byte

    bool holds(void const* p, std::size_t n) const {
      auto const* const at = static_cast<std::byte const*>(p);
      return at >= data && n <= bytes && at <= data + (bytes - n);
    }
  };
  enum class posted { yes, later, failed };
  /// Where a peer's memory is.
  struct target {
    fi_addr_t peer = FI_ADDR_UNSPEC;
    std::uint64_t address = 0, key = 0;
  };
  /// One or two pieces of memory that leave as one message.
  struct message {
    iovec part[2] = {};
    void* descriptor[2] = {};
    std::size_t parts = 0;

    void add(void const* p, std::size_t bytes, void* d) {
      part[parts] = {const_cast<void*>(p), bytes};
      descriptor[parts++] = d;
    }
  };
  /// What the provider has said about a failure.
  struct failure {
    std::string words;
    int peer = -1;
  };

  /// @param entries that the completion queue must hold
  /// @throws error(errc::unsupported) in the provider's words
  fabric_endpoint(fabric_library const& library, fi_info const& info, std::size_t entries)
      : library_(&library), info_(&info), provider_(info.fabric_attr->prov_name), mode_(info.domain_attr->mr_mode) {
    try {
      open(entries);
    } catch (...) {
      close();
      throw;
    }
  }
  fabric_endpoint(fabric_endpoint const&) = delete;
  ~fabric_endpoint() { close(); }

  std::string const& provider() const { return provider_; }
  /// Whether the sender's memory must be registered.
  bool needs_local_registration() const { return (mode_ & FI_MR_LOCAL) != 0; }
  /// Whether each arrival of CQ data uses up a receive.
  bool needs_fillers() const { return ((info_->mode | info_->rx_attr->mode) & FI_RX_CQ_DATA) != 0; }
  bool has_tags() const { return (info_->caps & FI_TAGGED) != 0; }
  /// Whether two pieces of memory can leave as one message. (`rma_iov_limit` is of pieces at the target: always one.)
  bool gathers() const { return info_->tx_attr->iov_limit >= 2; }
  std::size_t largest_message() const { return info_->ep_attr->max_msg_size; }

  /// This endpoint's address, for others to `insert`.
  std::string address() const {
    std::string name(256, '\0');
    std::size_t size = name.size();
    check(fi_getname(&endpoint_->fid, name.data(), &size), "asking for the endpoint's address");
    name.resize(size);
    return name;
  }
  fi_addr_t insert(std::string const& address) {
    fi_addr_t at = FI_ADDR_UNSPEC;
    int const n = fi_av_insert(addresses_, address.data(), 1, &at, 0, nullptr);
    if (n != 1) check(n < 0 ? n : -FI_EADDRNOTAVAIL, "taking in a peer's address");
    return at;
  }

  /// @throws error(errc::out_of_memory) in the provider's words
  region const& enroll(std::byte* data, std::size_t bytes, bool remote) {
    region r{data, bytes, nullptr, nullptr, 0, 0};
    std::uint64_t const access = FI_SEND | FI_RECV | FI_WRITE | (remote ? FI_REMOTE_WRITE : 0);
    // Whoever reaches the endpoint and knows a key can write to the memory: keys are not to be guessed.
    std::uint64_t key = 0;
    if ((mode_ & FI_MR_PROV_KEY) == 0) {
      key = std::uint64_t{random_()} << 32 | random_();
      std::size_t const size = info_->domain_attr->mr_key_size;
      key &= size >= 8 ? ~std::uint64_t{0} >> 1 : (std::uint64_t{1} << (8 * size)) - 1;
    }
    int failed = fi_mr_reg(domain_, data, bytes, access, 0, key, 0, &r.mr, nullptr);
    if (failed == 0 && (mode_ & FI_MR_ENDPOINT) != 0) {
      failed = fi_mr_bind(r.mr, &endpoint_->fid, 0);
      if (failed == 0) failed = fi_mr_enable(r.mr);
      if (failed != 0) fi_close(&r.mr->fid);
    }
    if (failed != 0)
      throw error(errc::out_of_memory,
                  detail::words("registering %zu bytes with provider %s failed: %s%s", bytes, provider_.c_str(),
                                library_->words(failed).c_str(),
                                failed == -FI_ENOMEM ? "; raise the limit of locked memory (ulimit -l)" : ""));
    r.descriptor = fi_mr_desc(r.mr);
    r.key = fi_mr_key(r.mr);
    r.base = (mode_ & FI_MR_VIRT_ADDR) != 0 ? reinterpret_cast<std::uintptr_t>(data) : 0;
    regions_.push_front(r);
    return regions_.front();
  }
  /// Ends a registration. The memory may have been enrolled with this endpoint or with none.
  void dismiss(std::byte const* data) {
    for (auto i = regions_.begin(); i != regions_.end(); ++i)
      if (i->data == data) {
        fi_close(&i->mr->fid);
        regions_.erase(i);
        return;
      }
  }
  /// The region in which some memory lies, or null.
  region const* region_of(void const* p, std::size_t bytes) const {
    for (region const& r : regions_)
      if (r.holds(p, bytes)) return &r;
    return nullptr;
  }

  /// Writes to a peer's memory; the peer's `poll` then gives it `word`.
  posted write(target const& to, message const& m, std::uint32_t word, fabric_ticket& t) {
    if (m.parts == 1)
      return said(fi_writedata(endpoint_, m.part[0].iov_base, m.part[0].iov_len, m.descriptor[0], word, to.peer,
                               to.address, to.key, &t.room),
                  t.peer, &t);
    std::size_t const bytes = m.part[0].iov_len + m.part[1].iov_len;
    fi_rma_iov const there{to.address, bytes, to.key};
    fi_msg_rma const all{m.part, const_cast<void**>(m.descriptor), m.parts, to.peer, &there, 1, &t.room, word};
    return said(fi_writemsg(endpoint_, &all, FI_REMOTE_CQ_DATA), t.peer, &t);
  }
  /// Sends a message to a receive that the peer has posted for such a tag.
  posted send(fi_addr_t to, message const& m, std::uint64_t tag, fabric_ticket& t) {
    return said(fi_tsendv(endpoint_, m.part, const_cast<void**>(m.descriptor), m.parts, to, tag, &t.room), t.peer, &t);
  }
  /// The same for a few bytes in registered memory, which may be used again at once unless the ticket is out.
  posted write_few(target const& to, message const& m, std::uint32_t word, fabric_ticket& t) {
    if (m.part[0].iov_len <= inject_writes_) {
      ssize_t const n =
          fi_inject_writedata(endpoint_, m.part[0].iov_base, m.part[0].iov_len, word, to.peer, to.address, to.key);
      if (n != -FI_ENOSYS && n != -FI_EOPNOTSUPP) return said(n, t.peer, nullptr);
      inject_writes_ = 0;
    }
    return write(to, m, word, t);
  }
  posted send_few(fi_addr_t to, message const& m, std::uint64_t tag, fabric_ticket& t) {
    if (m.part[0].iov_len <= inject_sends_) {
      ssize_t const n = fi_tinject(endpoint_, m.part[0].iov_base, m.part[0].iov_len, to, tag);
      if (n != -FI_ENOSYS && n != -FI_EOPNOTSUPP) return said(n, t.peer, nullptr);
      inject_sends_ = 0;
    }
    return send(to, m, tag, t);
  }
  /// Posts a receive for tags that equal `tag` but for the bits in `any`.
  posted receive(region const& in, std::byte* to, std::size_t bytes, std::uint64_t tag, std::uint64_t any,
                 fabric_ticket& t) {
    return said(fi_trecv(endpoint_, to, bytes, in.descriptor, FI_ADDR_UNSPEC, tag, any, &t.room), -1, &t);
  }
  /// Posts a receive of nothing, for CQ data to use up.
  posted receive_nothing(fabric_ticket& t) {
    return said(fi_recv(endpoint_, nullptr, 0, nullptr, FI_ADDR_UNSPEC, &t.room), -1, &t);
  }
  /// Tries whether data can be written and announced: no provider's word is taken for it.
  /// @return yes, later, or failed where the provider has no such thing, which is no failure of the endpoint
  posted try_write(target const& to, message const& m, std::uint32_t word, fabric_ticket& t) {
    if ((info_->caps & FI_RMA) == 0) return posted::failed;
    // ofi_rxm over TCP crashes when a peer ends in the middle of a write to this rank: its handler of errors takes
    // every one to be of a transfer that it knows (seen up to libfabric 2.6). Of messages it knows all.
    if (provider_ == "tcp;ofi_rxm" || provider_ == "net;ofi_rxm") return posted::failed;
    ssize_t const n = fi_writedata(endpoint_, m.part[0].iov_base, m.part[0].iov_len, m.descriptor[0], word, to.peer,
                                   to.address, to.key, &t.room);
    if (n == -FI_ENOSYS || n == -FI_EOPNOTSUPP) return posted::failed;
    return said(n, t.peer, &t);
  }

  /// Drives the provider, and hands on what has ended or arrived.
  /// @param f has `ended(ticket)` and `arrived(word, ticket or null)`
  /// @param wait how long to wait for something, if the provider can
  template <class F>
  bool poll(F& f, std::chrono::milliseconds wait = {}) {
    if (failure_) return false;
    constexpr std::size_t most = 16;
    alignas(fi_cq_tagged_entry) std::byte raw[most * sizeof(fi_cq_tagged_entry)];
    ssize_t const n = wait.count() > 0 && blocks_
                          ? fi_cq_sread(queue_, raw, most, nullptr, static_cast<int>(wait.count()))
                          : fi_cq_read(queue_, raw, most);
    if (n == -FI_EAVAIL) return read_failure(), true;
    if (n == -FI_EAGAIN || n == -FI_EINTR || n == -FI_ETIMEDOUT) return false;
    if (n < 0) return said(n, -1, nullptr), true;
    for (ssize_t i = 0; i < n; ++i) {
      fi_cq_tagged_entry e{};
      std::memcpy(static_cast<void*>(&e), raw + static_cast<std::size_t>(i) * entry_, entry_);
      auto* const t = static_cast<fabric_ticket*>(e.op_context);
      if ((e.flags & (FI_WRITE | FI_SEND)) != 0) {  // looked at first: some providers add flags of the target's side
        if (t != nullptr) t->out = false, f.ended(*t);
      } else if ((e.flags & FI_REMOTE_CQ_DATA) != 0) {
        if (t != nullptr) t->out = false;
        f.arrived(e.data, t);
      } else if ((e.flags & FI_RECV) != 0 && t != nullptr) {
        t->out = false;
        f.arrived(e.tag, t);
      }
    }
    return true;
  }
  /// Whether `poll` can sleep until something happens.
  bool blocks() const { return blocks_; }
  /// A descriptor that is readable when something happens, or -1. It counts only after `idle()`.
  int wakes() const { return wakes_; }
  /// Whether there is nothing to be had now, so that sleeping is safe.
  bool idle() const {
    fid* const f = &queue_->fid;
    return fi_trywait(fabric_, const_cast<fid**>(&f), 1) == 0;
  }
  std::optional<failure> const& failed() const { return failure_; }
  /// From now on the endpoint is left alone.
  void fail(failure f) {
    if (!failure_) failure_ = std::move(f);
  }

  /// Ends all transfers and registrations: no peer reaches this rank's memory any more.
  void close() {
    if (::getpid() != process_) return;  // a fork of the rank: what it has is the rank's own
    auto const regions = [this] {
      for (region const& r : regions_) fi_close(&r.mr->fid);
      regions_.clear();
    };
    if ((mode_ & FI_MR_ENDPOINT) != 0) regions();
    close(endpoint_);
    regions();
    close(queue_);
    close(addresses_);
    close(domain_);
    close(fabric_);
  }

 private:
  template <class Fid>
  static void close(Fid*& f) {
    if (f != nullptr) fi_close(&f->fid);
    f = nullptr;
  }
  void check(long failed, char const* what) const {
    if (failed != 0)
      throw error(errc::unsupported, detail::words("%s failed (provider %s on %s): %s", what, provider_.c_str(),
                                                   info_->domain_attr->name, library_->words(failed).c_str()));
  }
  void open(std::size_t entries) {
    auto* const info = const_cast<fi_info*>(info_);
    check(library_->open_fabric(info->fabric_attr, &fabric_), "opening the fabric");
    check(fi_domain(fabric_, info, &domain_, nullptr), "opening the domain");
    fi_cq_attr wanted{};
    wanted.size = entries;
    wanted.format = has_tags() ? FI_CQ_FORMAT_TAGGED : FI_CQ_FORMAT_DATA;
    entry_ = has_tags() ? sizeof(fi_cq_tagged_entry) : sizeof(fi_cq_data_entry);
    int failed = -FI_ENOSYS;
    for (fi_wait_obj object : {FI_WAIT_FD, FI_WAIT_UNSPEC, FI_WAIT_NONE}) {
      if (object == FI_WAIT_FD && provider_ == "net") continue;  // its descriptor is always readable
      wanted.wait_obj = object;
      if ((failed = fi_cq_open(domain_, &wanted, &queue_, nullptr)) != 0) continue;
      blocks_ = object == FI_WAIT_UNSPEC;
      if (object != FI_WAIT_FD || fi_control(&queue_->fid, FI_GETWAIT, &wakes_) == 0) break;
      close(queue_);  // some open what they then cannot wait for
      wakes_ = -1;
    }
    check(failed, "opening the completion queue");
    fi_av_attr table{};
    table.type = FI_AV_TABLE;
    check(fi_av_open(domain_, &table, &addresses_, nullptr), "opening the address vector");
    check(fi_endpoint(domain_, info, &endpoint_, nullptr), "making the endpoint");
    check(fi_ep_bind(endpoint_, &queue_->fid, FI_TRANSMIT | FI_RECV), "binding the completion queue");
    check(fi_ep_bind(endpoint_, &addresses_->fid, 0), "binding the address vector");
    check(fi_enable(endpoint_), "enabling the endpoint");
    inject_sends_ = info->tx_attr->inject_size;
    // Some providers leave this operation out altogether, and an older table may be too short for it.
    if (FI_CHECK_OP(endpoint_->rma, struct fi_ops_rma, injectdata)) inject_writes_ = info->tx_attr->inject_size;
#if FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION) >= FI_VERSION(1, 22)
    std::size_t limit = 0, size = sizeof limit;
    if (fi_getopt(&endpoint_->fid, FI_OPT_ENDPOINT, FI_OPT_INJECT_RMA_SIZE, &limit, &size) == 0)
      inject_writes_ = std::min(inject_writes_, limit);
#endif
  }

  // What a call that starts a transfer has said.
  posted said(ssize_t n, int peer, fabric_ticket* t) {
    if (n == 0) {
      if (t != nullptr) t->out = true;
      return posted::yes;
    }
    if (n == -FI_EAGAIN) return posted::later;
    fail({"provider " + provider_ + ": " + library_->words(n), peer});
    return posted::failed;
  }
  void read_failure() {
    fi_cq_err_entry e{};
    char buffer[128] = "";
    if (fi_cq_readerr(queue_, &e, 0) <= 0) return;
    auto const* const t = static_cast<fabric_ticket const*>(e.op_context);
    char const* const more = fi_cq_strerror(queue_, e.prov_errno, e.err_data, buffer, sizeof buffer);
    std::string words = "provider " + provider_ + ": " + library_->words(e.err);
    if (more != nullptr && *more != 0 && words.find(more) == std::string::npos) words += std::string(" (") + more + ")";
    fail({words, t != nullptr ? t->peer : -1});
  }

  fabric_library const* library_;
  fi_info const* info_;
  std::string provider_;
  std::int64_t mode_;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_cq* queue_ = nullptr;
  fid_av* addresses_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  std::size_t entry_ = 0, inject_writes_ = 0, inject_sends_ = 0;
  bool blocks_ = false;
  int wakes_ = -1;
  std::list<region> regions_;
  std::optional<failure> failure_;
  std::random_device random_;
  pid_t const process_ = ::getpid();
};

}  // namespace ringlet
