// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// A model checker for protocols of few words and few threads: it runs a program again and again, until every
// interleaving of its accesses to words, and every value that each access may see, has been tried.
//
// The memory model is release and acquire of C++, for words that have one writer each. A read may give any store that
// is not older than one that this thread has read, or than one that happens before the read. So it may be stale, as on
// a processor that reorders loads. Everything else that threads share is plain memory: the program tells when it reads
// and writes it, and two accesses that nothing orders are a data race, whether or not they did harm this time.
//
// Threads are fibers that stop before each access to a word, so that it is known who would do what next. Two executions
// that differ in the order of accesses to different words, or of two reads, are the same, and one of them is left out
// (sleep sets: Godefroid, "Partial-order methods for the verification of concurrent systems", 1996).
namespace model {

/// What exploring a program came to.
struct outcome {
  std::size_t executions = 0;  ///< that differ, each from its beginning to its end
  std::string violation;       ///< what went wrong in the last of them; empty where nothing ever did
};

/// Runs a program in all ways, or until one goes wrong.
/// @param program called with a `world`, to which it adds threads; all memory that they share is made anew each time
/// @param most executions that are tried; more are a violation
template <class Program>
outcome explore(Program const& program, std::size_t most = 2'000'000);

class word;

/// One execution of a program: its threads, its words, what each has seen of them.
class world {
 public:
  static constexpr std::size_t most_threads = 4;

  /// The one that runs.
  static world& now() { return *now_; }

  /// Adds a thread. What lives on its stack must own nothing: an execution that leads nowhere is dropped where it
  /// stands.
  void spawn(std::function<void()> body) {
    threads_.emplace_back();
    thread& t = threads_.back();
    t.body = std::move(body);
    t.clock[threads_.size() - 1] = 1;
  }
  /// From now on stores to `w` publish nothing: `memory_order_relaxed` for `release`.
  void weaken_release(word& w) { cell_of(w).releases = false; }
  /// From now on loads of `w` bring nothing with them: `memory_order_relaxed` for `acquire`.
  void weaken_acquire(word& w) { cell_of(w).acquires = false; }

  // For threads, while they run.

  /// Polls until the answer is not null or false. An answer must rest on one word: while that word is as it was, there
  /// is no point in asking again. An execution in which somebody does so all the same is the same without it.
  template <class Poll>
  auto until(Poll poll) {
    for (;;) {
      if (auto answer = poll()) return answer;
      thread& t = running();
      t.asks_again = true;
      for (std::size_t i = 0; i < threads_.size(); ++i)
        if (t.saw_nothing_new && !threads_[i].ended && (i == running_ ? possible(i) : has_news(i))) drop();
    }
  }
  /// Reads plain memory, known by its first byte.
  void reads(void const* where) {
    area& a = area_of(where);
    if (!before_now(a.written)) fail("a data race: read while it is written");
    a.read[running_] = running().clock[running_];
  }
  /// Writes plain memory, known by its first byte.
  void writes(void const* where) {
    area& a = area_of(where);
    if (!before_now(a.written)) fail("a data race: written by two");
    if (!before_now(a.read)) fail("a data race: written while it is read");
    a.written[running_] = running().clock[running_];
  }
  /// What must be so.
  void expect(bool holds, char const* words) {
    if (!holds) fail(words);
  }

 private:
  friend word;
  template <class Program>
  friend outcome explore(Program const& program, std::size_t most);

  // The time at each thread, as far as somebody knows it.
  using times = std::array<std::uint32_t, most_threads>;

  struct store {
    std::uint64_t value = 0;
    std::size_t writer = 0;
    std::uint32_t when = 0;  // on the writer's clock
    times carries{};         // what a thread that acquires it knows from then on
  };
  struct cell {
    std::vector<store> stores{store{}};
    std::array<std::size_t, most_threads> seen{};  // the youngest store that each thread has met
    bool releases = true, acquires = true;
  };
  struct area {
    void const* where;
    times written{}, read{};
  };
  struct access {
    std::size_t cell;
    bool writes;
    friend bool depend(access const& a, access const& b) { return a.cell == b.cell && (a.writes || b.writes); }
  };
  struct thread {
    std::function<void()> body;
    std::unique_ptr<std::byte[]> stack;
    ucontext_t context;
    times clock{};
    access next{};
    bool asks_again = false, saw_nothing_new = false, ended = false, asleep = false;
  };
  struct choice {
    std::size_t taken, options;
  };

  static constexpr std::size_t stack_bytes = 64 << 10;

  explicit world(std::vector<choice>& choices) : choices_(choices) { now_ = this; }

  thread& running() { return threads_[running_]; }

  // One of so many: what was chosen here in the last execution, or the first.
  std::size_t choose(std::size_t options) {
    if (decided_ == choices_.size()) choices_.push_back({0, options});
    return choices_[decided_++].taken;
  }
  // The choices of the next execution. False when all have been tried.
  static bool next(std::vector<choice>& choices) {
    while (!choices.empty() && ++choices.back().taken == choices.back().options) choices.pop_back();
    return !choices.empty();
  }

  // Runs all threads to their ends. False when this leads where another execution has been.
  bool run() {
    for (running_ = 0; running_ < threads_.size(); ++running_) {
      thread& t = running();
      t.stack = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
      ::getcontext(&t.context);
      t.context.uc_stack.ss_sp = t.stack.get();
      t.context.uc_stack.ss_size = stack_bytes;
      t.context.uc_link = &scheduler_;
      ::makecontext(&t.context, enter, 0);
      ::swapcontext(&scheduler_, &t.context);
    }
    while (violation_.empty() && !dropped_) {
      std::array<std::size_t, most_threads> ready;
      std::size_t count = 0;
      bool done = true, sleepers = false;
      for (std::size_t i = 0; i < threads_.size(); ++i) {
        thread const& t = threads_[i];
        done = done && t.ended;
        if (t.ended || !possible(i)) continue;
        sleepers = sleepers || t.asleep;
        if (!t.asleep) ready[count++] = i;
      }
      if (done) return true;
      if (count == 0) {
        if (sleepers) return false;
        violation_ = "all who are left wait for each other";
        break;
      }
      std::size_t const taken = choose(count);
      running_ = ready[taken];
      access const now = running().next;
      // What those before me in the list would do now has been explored, and stays so until I disturb it.
      for (std::size_t i = 0; i < taken; ++i) threads_[ready[i]].asleep = has_news(ready[i]);
      for (thread& t : threads_) t.asleep = t.asleep && !depend(t.next, now);
      ::swapcontext(&scheduler_, &running().context);
    }
    return !dropped_;
  }
  static void enter() {
    world& w = now();
    w.running().body();
    w.running().ended = true;
  }

  bool possible(std::size_t i) const {
    access const& a = threads_[i].next;
    return a.writes || oldest(i) < cells_[a.cell].stores.size();
  }
  // Whether a thread can change anything: it writes, or can read what it has not seen.
  bool has_news(std::size_t i) const {
    access const& a = threads_[i].next;
    return a.writes || cells_[a.cell].seen[i] + 1 < cells_[a.cell].stores.size();
  }
  // The oldest store that a thread's next read may give.
  std::size_t oldest(std::size_t i) const {
    thread const& t = threads_[i];
    cell const& c = cells_[t.next.cell];
    std::size_t first = c.seen[i] + t.asks_again;
    for (std::size_t s = first; s < c.stores.size(); ++s)
      if (c.stores[s].when <= t.clock[c.stores[s].writer]) first = s;
    return first;
  }

  std::uint64_t load(word const& w) {
    stop_before({number_of(w), false});
    thread& t = running();
    cell& c = cells_[t.next.cell];
    std::size_t const first = oldest(running_);
    std::size_t const given = first + choose(c.stores.size() - first);
    t.asks_again = false;
    t.saw_nothing_new = given == c.seen[running_];
    c.seen[running_] = given;
    if (c.acquires)
      for (std::size_t i = 0; i < most_threads; ++i) t.clock[i] = std::max(t.clock[i], c.stores[given].carries[i]);
    return c.stores[given].value;
  }
  void save(word const& w, std::uint64_t value) {
    stop_before({number_of(w), true});
    thread& t = running();
    cell& c = cells_[t.next.cell];
    c.stores.push_back({value, running_, t.clock[running_], c.releases ? t.clock : times{}});
    c.seen[running_] = c.stores.size() - 1;
    ++t.clock[running_];
  }
  void stop_before(access a) {
    running().next = a;
    ::swapcontext(&running().context, &scheduler_);
  }
  void fail(char const* words) {
    violation_ = words;
    drop();
  }
  void drop() {
    dropped_ = true;
    ::swapcontext(&running().context, &scheduler_);  // not to come back
  }

  inline std::size_t number_of(word const& w);
  cell& cell_of(word const& w) { return cells_[number_of(w)]; }
  area& area_of(void const* where) {
    auto const known = std::find_if(areas_.begin(), areas_.end(), [where](area const& a) { return a.where == where; });
    return known != areas_.end() ? *known : areas_.emplace_back(area{where});
  }
  bool before_now(times const& then) {
    for (std::size_t i = 0; i < most_threads; ++i)
      if (i != running_ && then[i] > running().clock[i]) return false;
    return true;
  }

  static inline world* now_ = nullptr;
  std::vector<choice>& choices_;
  std::size_t decided_ = 0;
  std::vector<thread> threads_;
  std::size_t running_ = 0;
  bool dropped_ = false;
  ucontext_t scheduler_;
  std::vector<cell> cells_;
  std::vector<area> areas_;
  std::string violation_;
};

/// In place of `ringlet::word`. Like that one it begins as zeros; then it knows its number among the words of the
/// world.
class word {
 public:
  std::uint64_t acquire() const { return world::now().load(*this); }
  void release(std::uint64_t value) { world::now().save(*this, value); }

 private:
  friend world;
  alignas(8) mutable std::uint64_t number_ = 0;
};

inline std::size_t world::number_of(word const& w) {
  if (w.number_ == 0) {
    cells_.emplace_back();
    w.number_ = cells_.size();
  }
  return w.number_ - 1;
}

template <class Program>
outcome explore(Program const& program, std::size_t most) {
  outcome result;
  std::vector<world::choice> choices;
  do {
    world w(choices);
    program(w);
    result.executions += w.run();
    result.violation = w.violation_;
    if (result.violation.empty() && result.executions == most) result.violation = "there are more executions than that";
  } while (result.violation.empty() && world::next(choices));
  return result;
}

}  // namespace model
