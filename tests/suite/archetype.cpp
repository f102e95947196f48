// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/transport/in_process.hpp"
#include "suite.hpp"

namespace {

// A transport that offers what the concept asks for and nothing else: no mapped peers, no windows, no announcements, no
// settings. Whatever is asked of it beyond the concept does not compile. With it, threads take to the ring.
class archetype {
  using beneath = ringlet::in_process;

 public:
  class link {
   public:
    class sender {
     public:
      explicit sender(beneath::link::sender& s) : of_(&s) {}
      template <class T>
      ringlet::slice<T> try_acquire(ringlet::placement where) {
        return of_->try_acquire<T>(where);
      }
      void commit() { of_->commit(); }
      bool drained() const { return of_->drained(); }

     private:
      beneath::link::sender* of_;
    };
    class receiver {
     public:
      explicit receiver(beneath::link::receiver& r) : of_(&r) {}
      template <class T>
      ringlet::slice<T> try_peek(ringlet::placement where) {
        return of_->try_peek<T>(where);
      }
      void release() { of_->release(); }

     private:
      beneath::link::receiver* of_;
    };
    explicit link(beneath::link& l) : of_(&l), next_(l.next()), prev_(l.prev()) {}
    sender& next() { return next_; }
    receiver& prev() { return prev_; }
    bool broken() const { return of_->broken(); }

   private:
    beneath::link* of_;
    sender next_;
    receiver prev_;
  };
  struct settings {
    std::string describe() const { return ""; }
  };

  template <ringlet::meeting M>
  archetype(M& m, settings const&, ringlet::time_point until)
      : x_(m, {.slots = 3, .slot_bytes = 384, .lanes = 2}, until), links_{link(x_.lane(0)), link(x_.lane(1))} {}
  link& lane(std::size_t i) { return links_[i]; }
  std::size_t lanes() const { return 2; }
  std::size_t slots() const { return x_.slots(); }
  std::size_t slot_bytes() const { return x_.slot_bytes(); }
  bool crowded() const { return x_.crowded(); }
  void rest() { x_.rest(); }
  int lost(std::uint64_t sequence) { return x_.lost(sequence); }
  void finish(std::uint64_t sequence) { x_.finish(sequence); }
  void tell(ringlet::fault const& f) { x_.tell(f); }
  ringlet::fault const* told() { return x_.told(); }

 private:
  beneath x_;
  link links_[2];
};

static_assert(!ringlet::mapped_peers<archetype, float> && !ringlet::announcing_link<archetype::link>);

}  // namespace

RINGLET_SUITE(tests::threads<archetype>);
