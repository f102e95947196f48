// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

// A library in libfabric's place, in the program itself, which must export its symbols for it and have it in one unit.
// Its providers do what hardware does and the software providers of a test machine do not. Ranks are threads. Each
// provider is as unpleasant as its contract allows: it reads what is sent as late as it can, when the target polls, and
// holds its user to everything that it has asked for.

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <vector>

namespace fake {

struct mood {
  char const* name;
  int mr_mode = 0;
  bool writes = true;          // fi_writedata
  bool tags = true;            // tagged messages
  bool injects = true;         // else the operation is missing from the table
  bool refuses = false;        // injects, but says ENOSYS
  bool ends_late = false;      // transfers are over for their sender only some polls after they have arrived
  bool orders = true;          // else things arrive in any order
  bool uses_receives = false;  // each CQ data takes a receive (FI_RX_CQ_DATA)
  bool waits = true;           // completion queues can be waited for
  bool gathers = true;         // two pieces in one message
  int storm = 0;               // says EAGAIN so often, of 4 times
  int fails_after = 0;         // transfers until one ends with an error
};
constexpr int hardware = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
inline mood const moods[] = {
    {.name = "plain"},
    {.name = "no_writes", .writes = false},
    {.name = "null_inject", .injects = false},
    {.name = "refused_inject", .refuses = true},
    {.name = "reordered", .ends_late = true, .orders = false},
    {.name = "registers", .mr_mode = hardware},
    {.name = "no_gather", .mr_mode = hardware, .gathers = false},
    {.name = "endpoint_memory",
     .mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_ENDPOINT,
     .writes = false,
     .orders = false},
    {.name = "rx_cq_data", .mr_mode = hardware, .injects = false, .uses_receives = true},
    {.name = "storms", .waits = false, .storm = 3},
    {.name = "everything",
     .mr_mode = hardware | FI_MR_ENDPOINT,
     .injects = false,
     .orders = false,
     .uses_receives = true,
     .waits = false,
     .gathers = false,
     .storm = 2},
    {.name = "all_but_writes",
     .mr_mode = hardware | FI_MR_ENDPOINT,
     .writes = false,
     .injects = false,
     .orders = false,
     .waits = false,
     .storm = 2},
    {.name = "untagged", .tags = false},
    {.name = "nothing", .writes = false, .tags = false},
    {.name = "fails", .fails_after = 40},
    {.name = "verbs;fake"},
};

inline std::mutex world;
inline std::condition_variable news;

struct fake_endpoint;
struct fake_queue {
  fid_cq cq{};
  std::size_t entry = 0, size = 0;
  std::deque<fi_cq_tagged_entry> entries;
  std::deque<fi_cq_err_entry> errors;
  fake_endpoint* of = nullptr;
};
struct fake_region {
  fid_mr mr{};
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint64_t access = 0;
  mood const* m = nullptr;
  bool enabled = false;
};
struct fake_domain {
  fid_domain domain{};
  mood const* m = nullptr;
  std::list<fake_region*> regions;
};
struct transfer {
  fake_endpoint* from;
  bool tagged = false, injected = false;
  std::vector<iovec> parts;
  std::vector<std::byte> copy;  // of what was injected
  std::uint64_t address = 0, key = 0, word = 0;
  void* context = nullptr;
};
struct receive {
  std::byte* to;
  std::size_t bytes;
  std::uint64_t tag, ignore;
  void* context;
  bool tagged;
};
struct fake_endpoint {
  fid_ep ep{};
  mood const* m = nullptr;
  fake_domain* domain = nullptr;
  fake_queue* queue = nullptr;
  std::uint64_t id = 0;
  bool enabled = false;
  int flying = 0, transfers = 0;
  std::list<transfer> coming;
  std::set<void*> contexts;  // of what has not ended
  std::deque<fi_cq_tagged_entry> late;
  std::list<receive> receives;
  std::mt19937 dice{7};
  int roll(int sides) { return std::uniform_int_distribution(0, sides - 1)(dice); }
};
inline std::map<std::uint64_t, fake_endpoint*> endpoints;
inline std::uint64_t next_id = 1;
inline long reads = 0;  // of completion queues

template <class Outer, class Inner>
Outer* outer(Inner* fid, Inner Outer::*) {
  return reinterpret_cast<Outer*>(fid);  // it stands first
}
inline fake_endpoint& of(fid_ep* e) { return *outer(e, &fake_endpoint::ep); }

constexpr int most_flying = 48;
constexpr std::size_t most_memory = std::size_t{64} << 20;  // that one registration takes

// --- completion ---

inline void push(fake_queue& q, fi_cq_tagged_entry const& e) {
  if (q.entries.size() >= q.size) std::abort();  // an overrun: on hardware, the end
  q.entries.push_back(e);
}
inline void push_error(fake_queue& q, int err, void* context, std::uint64_t flags) {
  fi_cq_err_entry e{};
  e.err = err, e.op_context = context, e.flags = flags;
  q.errors.push_back(e);
}
inline void over(fake_endpoint& e, fi_cq_tagged_entry const& entry) {
  --e.flying;
  e.contexts.erase(entry.op_context);
  push(*e.queue, entry);
}
inline void done(transfer const& t, int err = 0) {
  if (t.injected) return;
  std::uint64_t const flags = t.tagged ? FI_SEND | FI_TAGGED : FI_WRITE | FI_RMA;
  // Some providers tell the sender of the target's flags, too.
  fi_cq_tagged_entry const e{t.context, flags | (t.tagged ? 0 : FI_REMOTE_CQ_DATA), 0, nullptr, 0, 0};
  if (err == 0 && t.from->m->ends_late) t.from->late.push_back(e);
  if (err == 0 && !t.from->m->ends_late) over(*t.from, e);
  if (err != 0) push_error(*t.from->queue, err, t.context, flags);
}
inline std::size_t bytes_of(transfer const& t) {
  std::size_t n = 0;
  for (iovec const& i : t.parts) n += i.iov_len;
  return n;
}
inline void copy_to(std::byte* to, transfer const& t) {
  for (iovec const& i : t.parts) {
    if (i.iov_len != 0) std::memcpy(to, i.iov_base, i.iov_len);
    to += i.iov_len;
  }
}
// True when it has been dealt with; false when it must wait for a receive.
inline bool arrive(fake_endpoint& e, transfer const& t) {
  std::size_t const bytes = bytes_of(t);
  if (t.tagged) {
    auto const r = std::find_if(e.receives.begin(), e.receives.end(),
                                [&](receive const& r) { return r.tagged && ((r.tag ^ t.word) & ~r.ignore) == 0; });
    if (r == e.receives.end()) return false;
    if (bytes > r->bytes) std::abort();
    copy_to(r->to, t);
    push(*e.queue, {r->context, FI_RECV | FI_TAGGED, bytes, nullptr, 0, t.word});
    e.receives.erase(r);
    done(t);
    return true;
  }
  void* context = nullptr;
  auto const filler = std::find_if(e.receives.begin(), e.receives.end(), [](receive const& r) { return !r.tagged; });
  if (e.m->uses_receives && filler == e.receives.end()) return false;
  for (fake_region* r : e.domain->regions) {
    std::uint64_t const base = (r->m->mr_mode & FI_MR_VIRT_ADDR) != 0 ? reinterpret_cast<std::uint64_t>(r->data) : 0;
    if (r->mr.key != t.key || (r->access & FI_REMOTE_WRITE) == 0 || !r->enabled) continue;
    if (t.address < base || t.address - base > r->bytes || bytes > r->bytes - (t.address - base)) break;
    copy_to(r->data + (t.address - base), t);
    if (e.m->uses_receives) context = filler->context, e.receives.erase(filler);
    push(*e.queue, {context, FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, 0, nullptr, t.word, 0});  // no length
    done(t);
    return true;
  }
  done(t, FI_EACCES);
  return true;
}
inline void progress(fake_endpoint& e) {
  bool some = !e.late.empty();
  if (some && e.roll(4) == 0) {
    over(e, e.late.front());
    e.late.pop_front();
  }
  for (int left = static_cast<int>(e.coming.size()); left > 0; --left) {
    auto one = e.coming.begin();
    if (!e.m->orders) {
      if (e.roll(3) == 0) continue;
      std::advance(one, e.roll(static_cast<int>(e.coming.size())));
    }
    transfer const t = *one;
    if (arrive(e, t)) {
      e.coming.erase(one);
      some = true;
    } else if (e.m->orders && !t.tagged) {
      break;
    } else {
      e.coming.splice(e.coming.end(), e.coming, one);  // the next ones may have a receive
    }
  }
  if (some) news.notify_all();
}

// --- transfers ---

inline ssize_t start(fid_ep* ep, iovec const* parts, void** descriptors, std::size_t count, fi_addr_t to, transfer t) {
  std::lock_guard const lock(world);
  fake_endpoint& e = of(ep);
  if (!e.enabled || e.roll(4) < e.m->storm) return e.enabled ? -FI_EAGAIN : -FI_EOPBADSTATE;
  if (!t.injected && e.flying >= most_flying) return -FI_EAGAIN;
  auto const peer = endpoints.find(to);
  if (peer == endpoints.end()) return -FI_EAGAIN;
  if (count > (e.m->gathers ? 2u : 1u)) return -FI_EINVAL;
  for (std::size_t i = 0; i < count; ++i) {
    t.parts.push_back(parts[i]);
    if (t.injected || (e.m->mr_mode & FI_MR_LOCAL) == 0) continue;
    auto const* const begin = static_cast<std::byte const*>(parts[i].iov_base);
    bool const known = std::any_of(e.domain->regions.begin(), e.domain->regions.end(), [&](fake_region* r) {
      return descriptors != nullptr && descriptors[i] == r && r->enabled && begin >= r->data &&
             begin + parts[i].iov_len <= r->data + r->bytes;
    });
    if (!known) return -FI_EINVAL;
  }
  t.from = &e;
  if (t.injected) {  // the memory is the caller's again when this returns
    t.copy.resize(bytes_of(t));
    copy_to(t.copy.data(), t);
  }
  ++e.transfers;
  if (e.m->fails_after != 0 && e.transfers == e.m->fails_after) {
    push_error(*e.queue, FI_ECONNRESET, nullptr, FI_WRITE);
    return 0;
  }
  if (!t.injected && !e.contexts.insert(t.context).second) std::abort();  // it has not ended yet
  if (!t.injected) ++e.flying;
  auto& queue = peer->second->coming;
  queue.push_back(std::move(t));
  if (queue.back().injected) queue.back().parts = {{queue.back().copy.data(), queue.back().copy.size()}};
  news.notify_all();
  return 0;
}

inline ssize_t writedata(fid_ep* ep, void const* from, std::size_t bytes, void* descriptor, std::uint64_t data,
                         fi_addr_t to, std::uint64_t address, std::uint64_t key, void* context) {
  if (!of(ep).m->writes) return -FI_ENOSYS;
  iovec const part{const_cast<void*>(from), bytes};
  return start(ep, &part, &descriptor, 1, to,
               {.from = nullptr,
                .parts = {},
                .copy = {},
                .address = address,
                .key = key,
                .word = static_cast<std::uint32_t>(data),
                .context = context});
}
inline ssize_t writemsg(fid_ep* ep, fi_msg_rma const* m, std::uint64_t flags) {
  if (!of(ep).m->writes || (flags & FI_REMOTE_CQ_DATA) == 0) return -FI_ENOSYS;
  if (m->rma_iov_count != 1) return -FI_EINVAL;
  return start(ep, m->msg_iov, m->desc, m->iov_count, m->addr,
               {.from = nullptr,
                .parts = {},
                .copy = {},
                .address = m->rma_iov->addr,
                .key = m->rma_iov->key,
                .word = static_cast<std::uint32_t>(m->data),
                .context = m->context});
}
inline ssize_t inject_writedata(fid_ep* ep, void const* from, std::size_t bytes, std::uint64_t data, fi_addr_t to,
                                std::uint64_t address, std::uint64_t key) {
  if (!of(ep).m->writes || of(ep).m->refuses) return -FI_ENOSYS;
  iovec const part{const_cast<void*>(from), bytes};
  return start(ep, &part, nullptr, 1, to,
               {.from = nullptr,
                .injected = true,
                .parts = {},
                .copy = {},
                .address = address,
                .key = key,
                .word = static_cast<std::uint32_t>(data)});
}
inline ssize_t tsendv(fid_ep* ep, iovec const* parts, void** descriptors, std::size_t count, fi_addr_t to,
                      std::uint64_t tag, void* context) {
  return start(ep, parts, descriptors, count, to,
               {.from = nullptr, .tagged = true, .parts = {}, .copy = {}, .word = tag, .context = context});
}
inline ssize_t tinject(fid_ep* ep, void const* from, std::size_t bytes, fi_addr_t to, std::uint64_t tag) {
  if (of(ep).m->refuses || !of(ep).m->injects) return -FI_ENOSYS;
  iovec const part{const_cast<void*>(from), bytes};
  return start(ep, &part, nullptr, 1, to,
               {.from = nullptr, .tagged = true, .injected = true, .parts = {}, .copy = {}, .word = tag});
}
inline ssize_t take(fid_ep* ep, receive const& r) {
  std::lock_guard const lock(world);
  if (of(ep).roll(4) < of(ep).m->storm) return -FI_EAGAIN;
  of(ep).receives.push_back(r);
  return 0;
}
inline ssize_t recv(fid_ep* ep, void* to, std::size_t bytes, void*, fi_addr_t, void* context) {
  return take(ep, {static_cast<std::byte*>(to), bytes, 0, 0, context, false});
}
inline ssize_t trecv(fid_ep* ep, void* to, std::size_t bytes, void*, fi_addr_t, std::uint64_t tag, std::uint64_t ignore,
                     void* context) {
  return take(ep, {static_cast<std::byte*>(to), bytes, tag, ignore, context, true});
}

// --- completion queues ---

inline ssize_t read_entries(fake_queue& q, void* to, std::size_t count) {
  ++reads;
  if (q.of != nullptr) progress(*q.of);
  if (!q.errors.empty()) return -FI_EAVAIL;
  std::size_t n = 0;
  for (; n < count && !q.entries.empty(); ++n, q.entries.pop_front())
    std::memcpy(static_cast<std::byte*>(to) + n * q.entry, &q.entries.front(), q.entry);
  return n != 0 ? static_cast<ssize_t>(n) : -FI_EAGAIN;
}
inline ssize_t cq_read(fid_cq* cq, void* to, std::size_t count) {
  std::lock_guard const lock(world);
  return read_entries(*outer(cq, &fake_queue::cq), to, count);
}
inline ssize_t cq_sread(fid_cq* cq, void* to, std::size_t count, void const*, int timeout) {
  std::unique_lock lock(world);
  fake_queue& q = *outer(cq, &fake_queue::cq);
  auto const until = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout);
  ssize_t n;
  while ((n = read_entries(q, to, count)) == -FI_EAGAIN && news.wait_until(lock, until) == std::cv_status::no_timeout) {
  }
  return n;
}
inline ssize_t cq_readerr(fid_cq* cq, fi_cq_err_entry* to, std::uint64_t) {
  std::lock_guard const lock(world);
  fake_queue& q = *outer(cq, &fake_queue::cq);
  if (q.errors.empty()) return -FI_EAGAIN;
  *to = q.errors.front();
  q.errors.pop_front();
  return 1;
}
inline char const* cq_strerror(fid_cq*, int, void const*, char*, std::size_t) { return "the fake's own words"; }

// --- objects ---

inline int unbound(fid*, fid*, std::uint64_t) { return -FI_ENOSYS; }
inline int uncontrolled(fid*, int, void*) { return -FI_ENOSYS; }
template <class T>
int destroy(fid* f) {
  std::lock_guard const lock(world);
  delete reinterpret_cast<T*>(f);
  return 0;
}
template <class T>
inline fi_ops simple_ops{sizeof(fi_ops), destroy<T>, unbound, uncontrolled, nullptr, nullptr, nullptr};

inline int close_region(fid* f) {
  std::lock_guard const lock(world);
  auto* const r = reinterpret_cast<fake_region*>(f);
  for (auto& [id, e] : endpoints) e->domain->regions.remove(r);
  delete r;
  return 0;
}
inline int bind_region(fid* f, fid*, std::uint64_t) {
  auto* const r = reinterpret_cast<fake_region*>(f);
  return (r->m->mr_mode & FI_MR_ENDPOINT) != 0 ? 0 : -FI_EINVAL;
}
inline int control_region(fid* f, int command, void*) {
  std::lock_guard const lock(world);
  reinterpret_cast<fake_region*>(f)->enabled = command == FI_ENABLE;
  return 0;
}
inline fi_ops region_ops{sizeof(fi_ops), close_region, bind_region, control_region, nullptr, nullptr, nullptr};
inline int mr_reg(fid* f, void const* data, std::size_t bytes, std::uint64_t access, std::uint64_t, std::uint64_t key,
                  std::uint64_t, fid_mr** made, void*) {
  std::lock_guard const lock(world);
  auto* const d = reinterpret_cast<fake_domain*>(f);
  bool const gives_keys = (d->m->mr_mode & FI_MR_PROV_KEY) != 0;
  for (fake_region const* r : d->regions)
    if (!gives_keys && r->mr.key == key) return -FI_ENOKEY;
  if (bytes > most_memory) return -FI_ENOMEM;
  auto* const r = new fake_region;
  r->mr.fid.fclass = FI_CLASS_MR, r->mr.fid.ops = &region_ops;
  r->mr.mem_desc = r;
  r->mr.key = gives_keys ? next_id++ * 1000 : key;
  r->data = const_cast<std::byte*>(static_cast<std::byte const*>(data));
  r->bytes = bytes, r->access = access, r->m = d->m;
  r->enabled = (d->m->mr_mode & FI_MR_ENDPOINT) == 0;
  d->regions.push_back(r);
  *made = &r->mr;
  return 0;
}
inline fi_ops_mr mr_ops{sizeof(fi_ops_mr), mr_reg, nullptr, nullptr};

inline int close_endpoint(fid* f) {
  std::lock_guard const lock(world);
  auto* const e = reinterpret_cast<fake_endpoint*>(f);
  endpoints.erase(e->id);
  if (e->queue != nullptr) e->queue->of = nullptr;
  for (auto& [id, other] : endpoints) other->coming.remove_if([&](transfer const& t) { return t.from == e; });
  for (transfer const& t : e->coming)
    if (t.from != e) done(t, FI_ECONNABORTED);
  delete e;
  return 0;
}
inline int bind_endpoint(fid* f, fid* other, std::uint64_t) {
  auto* const e = reinterpret_cast<fake_endpoint*>(f);
  if (other->fclass == FI_CLASS_CQ) {
    e->queue = reinterpret_cast<fake_queue*>(other);
    e->queue->of = e;
  }
  return 0;
}
inline int control_endpoint(fid* f, int command, void*) {
  std::lock_guard const lock(world);
  auto* const e = reinterpret_cast<fake_endpoint*>(f);
  if (command != FI_ENABLE || e->queue == nullptr) return -FI_ENOCQ;
  e->enabled = true;
  e->id = next_id++;
  e->dice.seed(static_cast<unsigned>(e->id));
  endpoints[e->id] = e;
  return 0;
}
inline fi_ops endpoint_ops{sizeof(fi_ops), close_endpoint, bind_endpoint, control_endpoint, nullptr, nullptr, nullptr};
inline int getname(fid* f, void* to, std::size_t* bytes) {
  auto const* const e = reinterpret_cast<fake_endpoint*>(f);
  if (*bytes < sizeof e->id) return -FI_ETOOSMALL;
  std::memcpy(to, &e->id, *bytes = sizeof e->id);
  return 0;
}
inline fi_ops_cm cm_ops = [] {
  fi_ops_cm o{};
  o.size = sizeof o, o.getname = getname;
  return o;
}();
inline int getopt_no(fid*, int, int, void*, std::size_t*) { return -FI_ENOPROTOOPT; }
inline fi_ops_ep ep_ops = [] {
  fi_ops_ep o{};
  o.size = sizeof o, o.getopt = getopt_no;
  return o;
}();
inline fi_ops_rma rma_ops = [] {
  fi_ops_rma o{};
  o.size = sizeof o, o.writedata = writedata, o.writemsg = writemsg, o.injectdata = inject_writedata;
  return o;
}();
inline fi_ops_rma rma_ops_without_inject = [] {
  fi_ops_rma o = rma_ops;
  o.injectdata = nullptr;
  return o;
}();
inline fi_ops_msg msg_ops = [] {
  fi_ops_msg o{};
  o.size = sizeof o, o.recv = recv;
  return o;
}();
inline fi_ops_tagged tagged_ops = [] {
  fi_ops_tagged o{};
  o.size = sizeof o, o.recv = trecv, o.sendv = tsendv, o.inject = tinject;
  return o;
}();

inline int open_endpoint(fid_domain* d, fi_info*, fid_ep** made, void*) {
  auto* const e = new fake_endpoint;
  e->domain = outer(d, &fake_domain::domain);
  e->m = e->domain->m;
  e->ep.fid.fclass = FI_CLASS_EP, e->ep.fid.ops = &endpoint_ops;
  e->ep.ops = &ep_ops, e->ep.cm = &cm_ops, e->ep.msg = &msg_ops, e->ep.tagged = &tagged_ops;
  e->ep.rma = e->m->injects ? &rma_ops : &rma_ops_without_inject;
  *made = &e->ep;
  return 0;
}
inline fi_ops_cq cq_ops = [] {
  fi_ops_cq o{};
  o.size = sizeof o, o.read = cq_read, o.sread = cq_sread, o.readerr = cq_readerr, o.strerror = cq_strerror;
  return o;
}();
inline int open_queue(fid_domain* d, fi_cq_attr* a, fid_cq** made, void*) {
  if (a->wait_obj != FI_WAIT_NONE && !outer(d, &fake_domain::domain)->m->waits) return -FI_ENOSYS;
  auto* const q = new fake_queue;
  q->cq.fid.fclass = FI_CLASS_CQ, q->cq.fid.ops = &simple_ops<fake_queue>, q->cq.ops = &cq_ops;
  q->entry = a->format == FI_CQ_FORMAT_TAGGED ? sizeof(fi_cq_tagged_entry) : sizeof(fi_cq_data_entry);
  q->size = a->size;
  *made = &q->cq;
  return 0;
}
inline int insert(fid_av*, void const* address, std::size_t, fi_addr_t* to, std::uint64_t, void*) {
  std::memcpy(to, address, sizeof(std::uint64_t));
  return 1;
}
inline fi_ops_av av_ops = [] {
  fi_ops_av o{};
  o.size = sizeof o, o.insert = insert;
  return o;
}();
inline int open_addresses(fid_domain*, fi_av_attr*, fid_av** made, void*) {
  auto* const a = new fid_av{};
  a->fid.fclass = FI_CLASS_AV, a->fid.ops = &simple_ops<fid_av>, a->ops = &av_ops;
  *made = a;
  return 0;
}
inline fi_ops_domain domain_ops = [] {
  fi_ops_domain o{};
  o.size = sizeof o, o.av_open = open_addresses, o.cq_open = open_queue, o.endpoint = open_endpoint;
  return o;
}();
inline int open_domain(fid_fabric*, fi_info* info, fid_domain** made, void*) {
  auto* const d = new fake_domain;
  d->domain.fid.fclass = FI_CLASS_DOMAIN, d->domain.fid.ops = &simple_ops<fake_domain>;
  d->domain.ops = &domain_ops, d->domain.mr = &mr_ops;
  for (mood const& m : moods)
    if (std::strcmp(m.name, info->fabric_attr->prov_name) == 0) d->m = &m;
  *made = &d->domain;
  return 0;
}
inline fi_ops_fabric fabric_ops = [] {
  fi_ops_fabric o{};
  o.size = sizeof o, o.domain = open_domain;
  return o;
}();

}  // namespace fake

extern "C" {

[[gnu::used]] std::uint32_t fi_version() { return FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION); }
char const* fi_strerror(int number) { return number < 256 ? std::strerror(number) : "an error of the fake's"; }

fi_info* fi_dupinfo(fi_info const*) {
  auto* const i = new fi_info{};
  i->tx_attr = new fi_tx_attr{}, i->rx_attr = new fi_rx_attr{}, i->ep_attr = new fi_ep_attr{};
  i->domain_attr = new fi_domain_attr{}, i->fabric_attr = new fi_fabric_attr{};
  return i;
}
void fi_freeinfo(fi_info* i) {
  while (i != nullptr) {
    fi_info* const next = i->next;
    std::free(i->fabric_attr->prov_name), std::free(i->domain_attr->name);
    delete i->tx_attr, delete i->rx_attr, delete i->ep_attr, delete i->domain_attr, delete i->fabric_attr;
    delete i;
    i = next;
  }
}
int fi_getinfo(std::uint32_t, char const*, char const*, std::uint64_t, fi_info const* hints, fi_info** found) {
  *found = nullptr;
  for (fake::mood const& m : fake::moods) {
    if ((hints->caps & FI_TAGGED) != 0 && !m.tags) continue;
    if ((m.mr_mode & ~hints->domain_attr->mr_mode) != 0) continue;
    fi_info* const i = fi_dupinfo(nullptr);
    i->caps = hints->caps, i->mode = m.uses_receives ? FI_RX_CQ_DATA : 0;
    i->addr_format = FI_FORMAT_UNSPEC;
    i->fabric_attr->prov_name = ::strdup(m.name), i->domain_attr->name = ::strdup("fake0");
    i->domain_attr->mr_mode = m.mr_mode, i->domain_attr->mr_key_size = 8, i->domain_attr->cq_data_size = 8;
    i->tx_attr->iov_limit = m.gathers ? 2 : 1, i->tx_attr->rma_iov_limit = 1;
    i->tx_attr->inject_size = 64, i->tx_attr->size = fake::most_flying;
    i->ep_attr->max_msg_size = std::size_t{1} << 20;
    i->next = *found;
    *found = i;
  }
  return 0;
}
int fi_fabric(fi_fabric_attr*, fid_fabric** made, void*) {
  auto* const f = new fid_fabric{};
  f->fid.fclass = FI_CLASS_FABRIC, f->fid.ops = &fake::simple_ops<fid_fabric>, f->ops = &fake::fabric_ops;
  *made = f;
  return 0;
}
}
