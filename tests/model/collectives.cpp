// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whole collectives in one thread, which polls the ranks in a random order, over links and boards that are as slow,
// picky and faulty as their contracts allow. Each seed is one trial. To run one alone: RINGLET_SEED=N.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "moods.hpp"
#include "moody_link.hpp"
#include "moody_peers.hpp"
#include "ringlet/direct.hpp"
#include "ringlet/operation.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/schedule.hpp"

#ifndef TRIALS
#define TRIALS 100'000
#endif

namespace {

using model::expect;
using ringlet::collective;
using ringlet::status;
using element = std::uint32_t;  // wraps around, so that sums are exact, and no contribution can hide

constexpr element guard = 0xa5a5a5a5, used = 0xdeaddead;
constexpr std::size_t guards = 4, most_polls = 4'000'000;

enum class mishap {
  none,
  stops,     // a rank is never polled again, and some time later everyone is told
  breaks,    // a rank finds its links broken
  disagrees  // a rank calls something else than the others
};

struct plan {
  std::size_t ranks, lanes, slots, operations, slow, victim, moment, notice, strange;
  unsigned temper;
  bool mapped;
  mishap fault;

  explicit plan(model::dice& d)
      : ranks(d.between(1, 9)),
        lanes(d.one_in(3) ? d.between(2, 3) : 1),
        slots(d.between(2, 5)),
        operations(d.between(1, 3)),
        slow(d.below(2 * ranks)),
        victim(d.below(ranks)),
        moment(d.below(40 * ranks)),
        notice(d.below(60 * ranks)),
        strange(d.below(operations)),
        temper(d.one_in(3) ? 0 : 6),
        mapped(d.one_in(3)),
        fault(d.one_in(2) ? mishap::none : static_cast<mishap>(d.between(1, 3))) {
    if (ranks == 1 && fault == mishap::disagrees) fault = mishap::none;
  }
};

element contribution(std::uint64_t seed, std::size_t rank, std::size_t i) {
  return static_cast<element>(model::dice(seed ^ rank << 40 ^ i).any());
}

// How many times a rank's contribution counts, and the operator that does so.
template <class Op>
element weight(std::size_t) {
  return 1;
}
template <class Op>
Op make(std::size_t) {
  return {};
}
using scaled = ringlet::scaled_sum<element>;
template <>
element weight<scaled>(std::size_t rank) {
  return static_cast<element>(2 * rank + 3);
}
template <>
scaled make<scaled>(std::size_t rank) {
  return {weight<scaled>(rank)};
}
using widened = decltype(ringlet::travel_as<std::uint64_t>(scaled{1}));
template <>
element weight<widened>(std::size_t rank) {
  return weight<scaled>(rank);
}
template <>
widened make<widened>(std::size_t rank) {
  return ringlet::travel_as<std::uint64_t>(make<scaled>(rank));
}

// Several operations of one kind, one after the other on the same links.
template <collective What, class Op, class Link>
class trial {
  using arith = ringlet::arithmetic<element, Op>;
  using ring = ringlet::ring_operation<ringlet::ring_schedule<What>, arith, Link>;
  using direct = ringlet::direct_operation<What, arith, model::moody_peers>;

 public:
  trial(std::uint64_t seed, model::dice& d) : seed_(seed), dice_(d), plan_(d) {
    bool broken[16] = {};
    std::copy(broken, broken + 16, broken_);
    boards_.of.resize(plan_.ranks);
    boards_.stage_lines = d.below(3) * 2 * plan_.ranks;
    boards_.stages.resize(plan_.ranks * boards_.stage_lines);
    bool const all_reach_all = d.one_in(2);
    for (std::size_t i = 0; i < plan_.ranks * plan_.lanes; ++i)
      queues_.push_back(std::make_unique<model::moody_queue>(d, plan_.slots, plan_.temper));
    for (std::size_t r = 0; r < plan_.ranks; ++r) {
      ranks_.push_back(std::make_unique<member>());
      for (std::size_t lane = 0; lane < plan_.lanes; ++lane)
        ranks_[r]->links.emplace_back(queue(r, lane), queue((r + plan_.ranks - 1) % plan_.ranks, lane), broken_[r]);
      ranks_[r]->peers.emplace(static_cast<int>(r), boards_, d, plan_.temper, all_reach_all || d.one_in(2), broken_[r]);
    }
    for (std::size_t k = 0; k < plan_.operations; ++k) {
      std::size_t const depth = d.between(1, plan_.slots - 1);
      std::size_t const widest = model::moody_queue::slot_bytes / sizeof(typename arith::wire);
      works_.push_back({d.one_in(8) ? 0 : d.below(d.one_in(4) ? 200 : 20),
                        {d.between(1, widest), depth},
                        d.one_in(2),
                        {d.below(3) * 64, d.below(3) * 512, d.one_in(4) ? 100U : 4096U},
                        {}});
    }
  }

  void run() {
    for (std::size_t polls = 0; !over(); ++polls) {
      expect(polls < most_polls, "no end in sight: a livelock, or a deadlock that nobody noticed");
      bool const due = polls >= plan_.moment;
      if (due && plan_.fault == mishap::breaks) broken_[plan_.victim] = true;
      if (polls == plan_.moment + plan_.notice && plan_.fault == mishap::stops) tell();
      std::size_t const r = dice_.below(plan_.ranks);
      if (r == plan_.slow && !dice_.one_in(16)) continue;
      if (due && r == plan_.victim && plan_.fault == mishap::stops) continue;
      if (!ranks_[r]->failed && ranks_[r]->finished < plan_.operations) poll(r);
    }
    check_end();
  }

 private:
  // What all ranks do in one operation.
  struct work {
    std::size_t count;
    ringlet::pipelining pipe;
    bool in_place;
    ringlet::selection select;
    std::optional<ringlet::route> route;
  };
  // One rank's part in it.
  struct part {
    std::vector<element> in, out;  // with guards around; in place, there is only `out`
    element* input;
    element* output;
    ringlet::call called;
    std::optional<direct> meeting;
    std::vector<std::unique_ptr<ring>> rings;
    std::vector<status> states;
  };
  struct member {
    std::vector<Link> links;  // by lane
    std::optional<model::moody_peers> peers;
    std::vector<std::unique_ptr<part>> parts;  // of all operations that it has begun
    std::size_t finished = 0;
    bool failed = false;
  };

  model::moody_queue& queue(std::size_t from, std::size_t lane) { return *queues_[from * plan_.lanes + lane]; }
  ringlet::partition chunks(work const& w) const { return {w.count, plan_.ranks}; }
  std::size_t input_count(work const& w, std::size_t r) const {
    return whole_input(What) ? w.count : chunks(w).length(r);
  }
  std::size_t output_count(work const& w, std::size_t r) const {
    return whole_output(What) ? w.count : chunks(w).length(r);
  }
  std::size_t first_input(work const& w, std::size_t r) const { return whole_input(What) ? 0 : chunks(w).offset(r); }

  bool over() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [this](auto const& m) {
      bool const stopped = plan_.fault == mishap::stops && m == ranks_[plan_.victim] && broken_[plan_.victim];
      return m->failed || m->finished == plan_.operations || stopped;
    });
  }
  // Whether a rank calls something else, and nobody can go past that. In a ring, a rank hears of a call far away by the
  // values that do not come; with an empty chunk none would come anyway.
  bool all_hear() const {
    return plan_.fault == mishap::disagrees && (plan_.mapped || works_[plan_.strange].count >= plan_.ranks);
  }
  void tell() { std::fill(broken_, broken_ + 16, true); }

  void begin(std::size_t r) {
    member& m = *ranks_[r];
    std::size_t const k = m.finished;
    work const& w = works_[k];
    m.parts.push_back(std::make_unique<part>());
    part& p = *m.parts.back();
    p.out.assign(guards + std::max(w.count, output_count(w, r)) + guards, guard);
    p.output = p.out.data() + guards;
    p.input = p.output;
    if (w.in_place) {
      p.input += whole_input(What) ? 0 : chunks(w).offset(r);
      p.output += whole_output(What) ? 0 : chunks(w).offset(r);
    } else {
      p.in.assign(guards + input_count(w, r) + guards, guard);
      p.input = p.in.data() + guards;
    }
    for (std::size_t i = 0; i < input_count(w, r); ++i) p.input[i] = contribution(seed_ + k, r, first_input(w, r) + i);
    if (w.count == 0 && r % 2 == 0) p.input = p.output = nullptr;

    p.called.sequence = k + 1;
    p.called.what = What;
    p.called.count = w.count;
    if (plan_.fault == mishap::disagrees && r == plan_.victim && k == plan_.strange) p.called.element = 1;
    if (plan_.mapped)
      p.meeting.emplace(*m.peers, buffers(p, w), how(r), p.called, w.select);
    else
      make_rings(r, p, w, &p.called);
  }
  ringlet::buffers<element> buffers(part const& p, work const& w) const { return {p.input, p.output, chunks(w)}; }
  arith how(std::size_t r) const { return {make<Op>(r), static_cast<int>(plan_.ranks)}; }
  void make_rings(std::size_t r, part& p, work const& w, ringlet::call const* called) {
    auto at = buffers(p, w);
    at.lanes = plan_.lanes;
    ringlet::ring_schedule<What> const schedule{static_cast<int>(r), static_cast<int>(plan_.ranks)};
    for (at.lane = 0; at.lane < at.lanes; ++at.lane)
      p.rings.push_back(std::make_unique<ring>(schedule, ranks_[r]->links[at.lane], at, w.pipe, how(r), called));
    p.states.assign(plan_.lanes, status::pending);
  }

  void poll(std::size_t r) {
    member& m = *ranks_[r];
    if (m.parts.size() == m.finished) begin(r);
    part& p = *m.parts.back();
    work& w = works_[m.finished];
    status now = status::pending;
    if (p.rings.empty()) {
      now = p.meeting->poll();
      if (now == status::ready) {
        if (!w.route) w.route = p.meeting->route();
        expect(*w.route == p.meeting->route(), "ranks take different routes");
        if (*w.route == ringlet::route::ring) return make_rings(r, p, w, nullptr);
      }
    } else {
      for (std::size_t lane = 0; lane < plan_.lanes; ++lane)
        if (p.states[lane] == status::pending) p.states[lane] = p.rings[lane]->poll();
      now = status::ready;
      for (status s : p.states)
        if (s == status::failed || now == status::failed)
          now = status::failed;
        else if (s == status::pending)
          now = status::pending;
    }
    if (now == status::ready) check_ready(r, p);
    if (now == status::failed) check_failed(r, p);
  }

  // The moment that a rank says ready: all of its output must be there, and its memory is its own again.
  void check_ready(std::size_t r, part& p) {
    member& m = *ranks_[r];
    work const& w = works_[m.finished];
    expect(!all_hear() || m.finished != plan_.strange, "ready, though a rank called something else");
    std::size_t const begin = whole_output(What) ? 0 : chunks(w).offset(r);
    for (std::size_t i = 0; i < output_count(w, r); ++i) {
      element expected = 0;
      for (std::size_t from = 0; from < plan_.ranks; ++from)
        if (What != collective::all_gather || begin + i - chunks(w).offset(from) < chunks(w).length(from))
          expected += weight<Op>(from) * contribution(seed_ + m.finished, from, begin + i);
      expect(p.output[i] == expected,
             "ready with a wrong element " + std::to_string(i) + " at rank " + std::to_string(r));
    }
    if (!w.in_place)
      for (std::size_t i = 0; p.input != nullptr && i < input_count(w, r); ++i)
        expect(p.input[i] == contribution(seed_ + m.finished, r, first_input(w, r) + i), "the input was written to");
    check_guards(p);
    for (auto* memory : {&p.in, &p.out})
      if (!memory->empty()) std::fill(memory->begin() + guards, memory->end() - guards, used);
    p.rings.clear();
    p.meeting.reset();
    ++m.finished;
  }
  void check_failed(std::size_t r, part& p) {
    expect(plan_.fault != mishap::none, "failed without a fault");
    if (plan_.fault == mishap::disagrees) {
      std::size_t const prev = (r + plan_.ranks - 1) % plan_.ranks;
      ringlet::call const* theirs = nullptr;
      for (auto const& ring : p.rings)
        if (ring->disagreement() != nullptr) theirs = ring->disagreement();
      if (p.rings.empty() && p.meeting->disagreeing() >= 0)
        theirs = &ranks_[r]->peers->called(p.meeting->disagreeing());
      if (theirs != nullptr) {
        expect(!(*theirs == p.called), "ranks disagree, though they called the same");
        expect(plan_.mapped || r == plan_.victim || prev == plan_.victim,
               "a rank disagrees with one that called the same");
        disagreed_ = true;
      }
      expect(disagreed_, "the first to fail does not know who called something else");
    }
    ranks_[r]->failed = true;
    tell();
  }
  void check_guards(part const& p) const {
    for (auto const* memory : {&p.in, &p.out})
      for (std::size_t i = 0; i < guards && !memory->empty(); ++i)
        expect((*memory)[i] == guard && (*memory)[memory->size() - 1 - i] == guard, "written beyond a buffer's ends");
  }

  void check_end() const {
    for (auto const& m : ranks_)
      for (std::size_t k = 0; k < m->parts.size(); ++k) {
        check_guards(*m->parts[k]);
        if (k >= m->finished) continue;
        for (auto const* memory : {&m->parts[k]->in, &m->parts[k]->out})
          for (std::size_t i = guards; i + guards < memory->size(); ++i)
            expect((*memory)[i] == used, "written to after the operation was ready");
      }
    if (all_hear())
      for (auto const& m : ranks_) expect(m->failed, "a rank did not hear that another called something else");
    if (plan_.fault == mishap::none)
      for (auto const& q : queues_) expect(q->empty(), "something is left in a queue");
  }

  std::uint64_t seed_;
  model::dice& dice_;
  plan plan_;
  bool broken_[16];  // by rank
  std::vector<std::unique_ptr<model::moody_queue>> queues_;
  model::moody_boards boards_;
  std::vector<std::unique_ptr<member>> ranks_;
  std::vector<work> works_;
  bool disagreed_ = false;
};

template <collective What, class Op>
void run_over_any_link(std::uint64_t seed, model::dice& d) {
  switch (d.below(4)) {
    case 0: return trial<What, Op, model::moody_link<false, false>>(seed, d).run();
    case 1: return trial<What, Op, model::moody_link<false, true>>(seed, d).run();
    case 2: return trial<What, Op, model::moody_link<true, false>>(seed, d).run();
    default: return trial<What, Op, model::moody_link<true, true>>(seed, d).run();
  }
}
template <collective What>
void run_with_any_operator(std::uint64_t seed, model::dice& d) {
  switch (d.below(3)) {
    case 0: return run_over_any_link<What, scaled>(seed, d);
    case 1: return run_over_any_link<What, widened>(seed, d);
    default: return run_over_any_link<What, ringlet::sum>(seed, d);
  }
}
void run_any(std::uint64_t seed) {
  model::dice d(seed);
  switch (d.below(3)) {
    case 0: return run_over_any_link<collective::all_gather, ringlet::keep>(seed, d);
    case 1: return run_with_any_operator<collective::reduce_scatter>(seed, d);
    default: return run_with_any_operator<collective::all_reduce>(seed, d);
  }
}

}  // namespace

TEST_CASE("whatever the order and the fault, a rank that says ready is right, and nobody waits for ever") {
  char const* const alone = std::getenv("RINGLET_SEED");
  std::uint64_t const first = alone != nullptr ? std::strtoull(alone, nullptr, 10) : 0;
  std::uint64_t const trials = alone != nullptr ? 1 : TRIALS;
  int failures = 0;
  for (std::uint64_t seed = first; seed < first + trials && failures < 5; ++seed) try {
      run_any(seed);
    } catch (std::exception const& e) {
      ++failures;
      FAIL_CHECK("RINGLET_SEED=" << seed << ": " << std::string(e.what()));
    }
  MESSAGE(trials << " trials");
  CHECK(failures == 0);
}
