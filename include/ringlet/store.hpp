// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>

#include "ringlet/clock.hpp"
#include "ringlet/error.hpp"

namespace ringlet {

namespace detail {
// What is left of a time, as poll takes it.
inline int milliseconds_until(time_point until) {
  auto const left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
  constexpr int most = 1 << 30;
  return left < 0 ? 0 : left < most ? static_cast<int>(left) : most;
}
}  // namespace detail

/// Where ranks meet before they have links: a dictionary that all ranks of a job see.
///
/// Contract. For a store `s`, byte strings `key` and `value` (either may hold NULs), and a time `deadline`:
/// - `s.set(key, value)` puts `value` under `key` and returns true. A key is set once: when it is there already,
///   with whatever value, the first value stays and the answer is false. Of several ranks that set one key at once
///   exactly one gets true.
/// - `s.get(key, deadline)` waits until the key is set, by any rank, and returns its value. It always looks at least
///   once, so that a deadline that has passed asks "is it there by now?". When the key is not there at the
///   deadline it throws `error(errc::timed_out)` that names the key.
/// - What a rank wrote before `set` is seen by the rank whose `get` returns that value.
/// - Both throw `error` of another kind when the store itself fails. Whoever does so leaves no key half set, and a
///   rank that is killed at any moment keeps no other from using the store.
/// - One thread of a rank uses one store object at a time, unless the store promises more.
///
/// A minimal model, for one rank: @code
/// struct dictionary {
///   std::map<std::string, std::string, std::less<>> entries;
///   bool set(std::string_view key, std::string_view value) { return entries.emplace(key, value).second; }
///   std::string get(std::string_view key, ringlet::time_point) {
///     if (auto found = entries.find(key); found != entries.end()) return found->second;
///     throw ringlet::error(ringlet::errc::timed_out, "nobody has set the key '" + std::string(key) + "'");
///   }
/// };
/// @endcode
template <class S>
concept store = requires(S& s, std::string_view key, std::string_view value, time_point deadline) {
  { s.set(key, value) } -> std::same_as<bool>;
  { s.get(key, deadline) } -> std::same_as<std::string>;
};

/// A store that puts a prefix before every key of another store, so that two uses of one store cannot meet.
/// Is as safe between threads as the store beneath, which must outlive it.
/// @tparam S the store beneath
template <store S>
class prefixed {
 public:
  /// @param beneath where keys and values are kept
  /// @param prefix what comes before each key, for example "connect/2/"
  prefixed(S& beneath, std::string prefix) : beneath_(&beneath), prefix_(std::move(prefix)) {}

  /// As the contract of `store` says.
  bool set(std::string_view key, std::string_view value) { return beneath_->set(whole(key), value); }
  /// As the contract of `store` says. An error names the whole key, prefix included.
  std::string get(std::string_view key, time_point deadline) { return beneath_->get(whole(key), deadline); }

 private:
  std::string whole(std::string_view key) const { return prefix_ + std::string(key); }

  S* beneath_;
  std::string prefix_;
};

}  // namespace ringlet
