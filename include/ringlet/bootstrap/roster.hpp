// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "ringlet/clock.hpp"
#include "ringlet/store.hpp"

namespace ringlet {

/// What a rank knows when it starts: who it is, how many there are, and where they meet.
/// @tparam S the store, which must outlive this value
template <store S>
struct bootstrap {
  int rank;  ///< of this rank, from 0
  int size;  ///< how many ranks there are
  S& store;  ///< one store for all of them
};
template <store S>
bootstrap(int, int, S&) -> bootstrap<S>;

/// How much longer than rank 0 the other ranks wait, so that they get its verdict rather than give up beside it.
inline constexpr std::chrono::milliseconds verdict_grace{2000};

/// Makes sure that all ranks are there and were set up alike. All ranks call it, once a store: put a `prefixed`
/// store into the bootstrap to meet again.
///
/// Rank 0 collects what every rank says and publishes a verdict, so that all ranks succeed or all fail with the same
/// words. Those name the ranks that are missing at the deadline, the ranks that were claimed twice, and who
/// said what where ranks disagree about size, wire version or settings; after a disagreement ranks that are
/// still missing get one second more. A process whose rank is taken learns so at once, and alone.
///
/// @param self this rank
/// @param settings whatever must be equal on all ranks, as text for people: "slots=8 slot_bytes=262144"
/// @param deadline when rank 0 stops waiting; the others wait for `verdict_grace` more
/// @return a random token, the same on all ranks, different for each meeting
/// @throws error(errc::bootstrap) when ranks are missing or claimed twice; `peer()` is the rank where it is one alone
/// @throws error(errc::mismatch) when ranks disagree
/// @throws error(errc::invalid_argument) when rank and size make no sense
template <store S>
std::uint64_t agree(bootstrap<S> const& self, std::string_view settings, time_point deadline);

/// Gives every rank's value to every rank. All ranks call it, with the same name, and each name once a store.
/// @param self this rank
/// @param name under which the values are kept
/// @param bytes what this rank gives, any bytes; the values of all ranks together must fit one value of the store
/// @param deadline when rank 0 stops waiting; the others wait for `verdict_grace` more
/// @return the values in the order of the ranks
/// @throws error(errc::bootstrap) the same words on all ranks, naming those that gave nothing; `peer()` where it is one
template <store S>
std::vector<std::string> exchange(bootstrap<S> const& self, std::string_view name, std::string_view bytes,
                                  time_point deadline);

namespace detail {

// "rank 3", "ranks 0, 2-5"
inline std::string named(std::vector<int> const& ranks) {
  std::string words = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t first = 0, last; first < ranks.size(); first = last + 1) {
    last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (first != 0) words += ", ";
    words += std::to_string(ranks[first]);
    if (last != first) words += (last == first + 1 ? ", " : "-") + std::to_string(ranks[last]);
  }
  return words;
}

// What a rank says of itself, as lines. The settings come last, for they may hold anything.
struct hello {
  static constexpr std::array<char const*, 3> subject{"ringlet's wire version", "the size", "the settings"};
  std::array<std::string, 3> says;  // by subject
  std::string who;                  // process and machine, for people

  std::string text() const { return says[0] + '\n' + says[1] + '\n' + who + '\n' + says[2]; }
  static hello parse(std::string_view text) {
    auto const line = [&text] {
      std::string_view const words = text.substr(0, text.find('\n'));
      text.remove_prefix(words.size() + (words.size() < text.size()));
      return std::string(words);
    };
    hello h;
    h.says[0] = line();
    h.says[1] = line();
    h.who = line();
    h.says[2] = text;
    return h;
  }
};

inline std::uint64_t random_token() {
  std::uint64_t token = 0;
  if (::getentropy(&token, sizeof token) != 0) throw error(errc::bootstrap, "the system gives no random numbers");
  return token;
}

inline std::string this_process() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return "process " + std::to_string(::getpid()) + " on " + host;
}

template <store S>
std::optional<std::string> get_if(S& s, std::string const& key, time_point deadline) {
  try {
    return s.get(key, deadline);
  } catch (error const& e) {
    if (e.why() != errc::timed_out) throw;
    return std::nullopt;
  }
}

// What rank 0 publishes: '+' and what all ranks wanted; or of a failure its kind, a digit, the rank that it lies with
// or -1, a colon, and the words for it.
inline std::string failure(errc why, std::string const& words, int peer = -1) {
  return static_cast<char>('0' + static_cast<int>(why)) + std::to_string(peer) + ':' + words;
}
inline std::string words_of(std::string_view failure) { return std::string(failure.substr(failure.find(':') + 1)); }
inline std::string verdict_of(std::string_view text, int size) {
  char const kind = text.empty() ? ' ' : text[0];
  if (kind == '+') return std::string(text.substr(1));
  int peer = -1;
  if (kind >= '1' && kind <= '9') {
    std::from_chars(text.data() + 1, text.data() + text.size(), peer);
    throw error(static_cast<errc>(kind - '0'), words_of(text), 0 <= peer && peer < size ? peer : -1);
  }
  throw error(errc::bootstrap, "rank 0's verdict makes no sense: another program may write to the store", 0);
}

// Calls the roll, which ends when everyone has answered or the deadline has passed. Nothing when all is well, else
// the failure to publish, which tells the time since `start`.
template <store S>
std::optional<std::string> roll_call(bootstrap<S> const& self, time_point start, time_point deadline) {
  using namespace std::chrono;
  std::vector<int> missing, twice;
  std::array<std::vector<std::pair<std::string, std::vector<int>>>, hello::subject.size()> said;  // what, and who
  for (int rank = 0; rank < self.size; ++rank) {
    auto const text = get_if(self.store, "hello/" + std::to_string(rank), deadline);
    if (!text) {
      missing.push_back(rank);
      continue;
    }
    hello const h = hello::parse(*text);
    for (std::size_t i = 0; i < said.size(); ++i) {
      std::size_t k = 0;
      while (k < said[i].size() && said[i][k].first != h.says[i]) ++k;
      if (k == said[i].size()) said[i].emplace_back(h.says[i], std::vector<int>());
      said[i][k].second.push_back(rank);
      if (auto const soon = steady_clock::now() + seconds(1); said[i].size() > 1 && soon < deadline) deadline = soon;
    }
  }
  std::string missed, disagreed;
  auto const add = [](std::string& words, std::string const& more) { words += (words.empty() ? "" : "; ") + more; };
  if (!missing.empty()) {
    add(missed, named(missing) + " of " + std::to_string(self.size) + " did not come within " +
                    std::to_string(duration_cast<milliseconds>(steady_clock::now() - start).count()) + " ms");
    for (int rank = 0; rank < self.size; ++rank) {
      if (get_if(self.store, "twice/" + std::to_string(rank), start)) twice.push_back(rank);
    }
  }
  if (!twice.empty()) add(missed, named(twice) + (twice.size() == 1 ? " was" : " were") + " claimed more than once");
  for (std::size_t i = 0; i < said.size(); ++i) {
    if (said[i].size() < 2) continue;
    std::string views;
    for (auto const& [what, ranks] : said[i]) {
      add(views, named(ranks) + (ranks.size() == 1 ? " says '" : " say '") + what + "'");
    }
    add(disagreed, std::string("ranks disagree about ") + hello::subject[i] + ": " + views);
  }
  if (!disagreed.empty()) {
    add(disagreed, missed.empty() ? "start all ranks alike" : missed);
    return failure(errc::mismatch, disagreed);
  }
  if (!missed.empty()) {
    return failure(errc::bootstrap,
                   missed + "; see what became of " + (missing.size() == 1 ? "it" : "them") +
                       ", and give each process its own rank",
                   missing.size() == 1 && twice.empty() ? missing[0] : -1);
  }
  return std::nullopt;
}

template <store S>
void check(bootstrap<S> const& self) {
  if (self.size < 1 || self.rank < 0 || self.rank >= self.size) {
    throw error(errc::invalid_argument, "rank " + std::to_string(self.rank) + " of " + std::to_string(self.size) +
                                            ": ranks go from 0 to the size less one");
  }
}

}  // namespace detail

template <store S>
std::uint64_t agree(bootstrap<S> const& self, std::string_view settings, time_point deadline) {
  detail::check(self);
  auto const start = std::chrono::steady_clock::now();
  std::string const rank = std::to_string(self.rank);
  detail::hello const mine{{std::to_string(wire_version), std::to_string(self.size), std::string(settings)},
                           detail::this_process()};
  if (!self.store.set("hello/" + rank, mine.text())) {
    self.store.set("twice/" + rank, mine.who);
    std::string const other = detail::hello::parse(self.store.get("hello/" + rank, deadline)).who;
    throw error(
        errc::bootstrap,
        "rank " + rank + " is taken: " + other + " came first, this is " + mine.who +
            (other == mine.who ? "; a store serves one connection: for another, put a prefixed store into the bootstrap"
                               : "; give each rank to one process"),
        self.rank);
  }
  if (self.rank == 0) {
    auto verdict = detail::roll_call(self, start, deadline);
    if (!verdict) {
      verdict = '+' + std::to_string(detail::random_token());
    }
    self.store.set("verdict", *verdict);
  }
  auto const verdict = detail::get_if(self.store, "verdict", deadline + verdict_grace);
  if (!verdict) {
    auto const seen = detail::roll_call(self, start, deadline);  // nobody is waited for: the deadline is over
    throw error(errc::bootstrap,
                "rank 0 gave no verdict in time; " +
                    (seen ? detail::words_of(*seen) : "all ranks came, and agree: rank 0 may have ended"),
                0);
  }
  std::string const text = detail::verdict_of(*verdict, self.size);
  std::uint64_t token = 0;
  std::from_chars(text.data(), text.data() + text.size(), token);
  // A rank beyond rank 0's size is in no roll.
  auto const first = detail::hello::parse(self.store.get("hello/0", deadline));
  if (first.says != mine.says) {
    throw error(errc::mismatch,
                "rank " + rank + " was not expected: rank 0 says that " + detail::hello::subject[1] + " is '" +
                    first.says[1] + "', rank " + rank + " says '" + mine.says[1] + "'",
                self.rank);
  }
  return token;
}

template <store S>
std::vector<std::string> exchange(bootstrap<S> const& self, std::string_view name, std::string_view bytes,
                                  time_point deadline) {
  detail::check(self);
  auto const key = [&name](std::string const& last) { return "exchange/" + std::string(name) + '/' + last; };
  if (!self.store.set(key(std::to_string(self.rank)), bytes)) {
    throw error(errc::invalid_argument, "rank " + std::to_string(self.rank) + " has given a value for '" +
                                            std::string(name) + "' before: each name serves one exchange");
  }
  // Rank 0 hands out one long value, so that n ranks cost 3n requests, not n * n.
  if (self.rank == 0) {
    std::string all = "+";
    std::vector<int> missing;
    for (int rank = 0; rank < self.size; ++rank) {
      auto const value = detail::get_if(self.store, key(std::to_string(rank)), deadline);
      if (!value) {
        missing.push_back(rank);
      } else {
        all += std::to_string(value->size()) + ':' + *value;
      }
    }
    if (!missing.empty()) {
      all = detail::failure(errc::bootstrap,
                            detail::named(missing) + " gave no value for '" + std::string(name) + "' in time",
                            missing.size() == 1 ? missing[0] : -1);
    }
    self.store.set(key("all"), all);
  }
  auto const verdict = detail::get_if(self.store, key("all"), deadline + verdict_grace);
  if (!verdict) {
    throw error(errc::bootstrap, "rank 0 did not hand out the values of '" + std::string(name) + "' in time", 0);
  }
  std::string const all = detail::verdict_of(*verdict, self.size);
  std::vector<std::string> values;
  for (std::string_view rest = all; !rest.empty();) {
    std::size_t length = 0;
    auto const [colon, failed] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    rest.remove_prefix(static_cast<std::size_t>(colon - rest.data()));
    if (failed != std::errc{} || rest.empty() || rest[0] != ':' || length > rest.size() - 1) {
      throw error(errc::mismatch, "rank 0 handed out what is no list of values", 0);
    }
    values.emplace_back(rest.substr(1, length));
    rest.remove_prefix(1 + length);
  }
  if (values.size() != static_cast<std::size_t>(self.size)) {
    throw error(errc::mismatch, "'" + std::string(name) + "' has values of " + std::to_string(values.size()) +
                                    " ranks, this rank expects " + std::to_string(self.size));
  }
  return values;
}

}  // namespace ringlet
