// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <system_error>

#include "ringlet/config.hpp"

namespace ringlet {

/// What went wrong, in kinds that a program can act on. The words of the error say the rest.
enum class errc {
  invalid_argument = 1,  ///< the call itself is wrong; nothing was sent, the communicator is still good
  timed_out,             ///< a deadline passed
  peer_lost,             ///< a rank has ended or left while others needed it
  mismatch,              ///< ranks called different things, or were set up differently
  aborted,               ///< a rank gave up: abort(), cancel(), or an operation destroyed before its end
  out_of_memory,         ///< memory to share could not be had
  not_connected,         ///< the communicator was moved from, or has failed before
  bootstrap,             ///< ranks could not find each other
  unsupported,           ///< this machine or transport cannot do what was asked
};

/// The category of `errc`: "ringlet".
std::error_category const& category() noexcept;
std::error_code make_error_code(errc e) noexcept;

namespace detail {
// Words for an error, as printf makes them: one call where chains of strings would be pages of code in every program.
[[gnu::cold, gnu::format(printf, 1, 2)]] inline std::string words(char const* format, ...) {
  char text[512];
  va_list values;
  va_start(values, format);
  int const length = std::vsnprintf(text, sizeof text, format, values);
  va_end(values);
  if (length < static_cast<int>(sizeof text)) return text;
  std::string all(static_cast<std::size_t>(length), '\0');
  va_start(values, format);
  std::vsnprintf(all.data(), all.size() + 1, format, values);
  va_end(values);
  return all;
}
}  // namespace detail

/// What ringlet throws: an error code of category "ringlet", words for a person, and where it happened.
class error : public std::system_error {
 public:
  /// @param why what kind of failure
  /// @param words what was given, what was expected, and what to do
  /// @param peer the rank at fault, or -1 where no single one is
  [[gnu::cold]] explicit error(errc why, std::string const& words, int peer = -1, int step = -1, int lane = -1)
      : std::system_error(make_error_code(why)),
        what_(detail::words("%s: %s", words.c_str(), code().message().c_str())),
        peer_(peer),
        step_(step),
        lane_(lane) {}

  /// The kind, as the enumeration.
  errc why() const noexcept { return static_cast<errc>(code().value()); }
  /// The words alone, without the kind that `what()` adds to them.
  std::string words() const {
    std::string text = what();
    std::string const kind = ": " + code().message();
    if (text.size() >= kind.size() && text.compare(text.size() - kind.size(), kind.size(), kind) == 0)
      text.resize(text.size() - kind.size());
    return text;
  }
  /// The rank at fault; of a mismatch, one that called something else than the rank that noticed it; or -1.
  int peer() const noexcept { return peer_; }
  /// The step of the schedule that could not be taken, or -1.
  int step() const noexcept { return step_; }
  /// The lane on which that was, or -1.
  int lane() const noexcept { return lane_; }

  /// The words, and the kind.
  char const* what() const noexcept override { return what_.what(); }

 private:
  std::runtime_error what_;  // its text is shared, so that copies cannot fail; and made by one call, see `words`
  int peer_, step_, lane_;
};

inline std::error_category const& category() noexcept {
  static struct final_category final : std::error_category {
    char const* name() const noexcept override { return "ringlet"; }
    std::string message(int value) const override {
      switch (static_cast<errc>(value)) {
        case errc::invalid_argument: return "invalid argument";
        case errc::timed_out: return "timed out";
        case errc::peer_lost: return "peer lost";
        case errc::mismatch: return "ranks disagree";
        case errc::aborted: return "aborted";
        case errc::out_of_memory: return "out of memory to share";
        case errc::not_connected: return "not connected";
        case errc::bootstrap: return "ranks could not meet";
        case errc::unsupported: return "not supported here";
      }
      return "unknown";
    }
  } const instance;
  return instance;
}

inline std::error_code make_error_code(errc e) noexcept { return {static_cast<int>(e), category()}; }

}  // namespace ringlet

template <>
struct std::is_error_code_enum<ringlet::errc> : std::true_type {};
