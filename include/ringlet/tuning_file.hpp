// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <charconv>
#include <cstddef>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "ringlet/error.hpp"
#include "ringlet/selection.hpp"

namespace ringlet {

/// The selection for `ranks` in the text of a file that `ringlet-perf --tune` has written: that for the largest number
/// of ranks that is not above it, or for the smallest there is; the defaults where the text has none. A line is
/// `ranks=2 one_shot_bytes=512 boarded_bytes=32768 staged_bytes=4194304`; others are empty or begin with #.
/// @throws error(errc::invalid_argument) with the line that is none of these
inline selection tuned(std::string_view text, int ranks) {
  selection best;
  int best_ranks = 0;
  while (!text.empty()) {
    std::string_view const line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() < text.size() ? line.size() + 1 : line.size());
    std::string_view rest = line.substr(0, line.find('\r'));
    if (rest.empty() || rest[0] == '#') continue;
    auto const number = [&](std::string_view name, auto& to) {
      if (rest.substr(0, name.size()) != name) return false;
      rest.remove_prefix(name.size());
      auto const [end, fault] = std::from_chars(rest.data(), rest.data() + rest.size(), to);
      rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
      return fault == std::errc();
    };
    int of = 0;
    selection its;
    if (!number("ranks=", of) || !number(" one_shot_bytes=", its.one_shot_bytes) ||
        !number(" boarded_bytes=", its.boarded_bytes) || !number(" staged_bytes=", its.staged_bytes) || !rest.empty() ||
        of < 1)
      throw error(errc::invalid_argument, "a tuning file has the line '" + std::string(line.substr(0, 80)) +
                                              "', expected 'ranks=N one_shot_bytes=N boarded_bytes=N staged_bytes=N': "
                                              "write it with ringlet-perf --tune");
    bool const nearer = of <= ranks ? best_ranks > ranks || of > best_ranks : best_ranks > ranks && of < best_ranks;
    if (best_ranks == 0 || nearer) best = its, best_ranks = of;
  }
  return best;
}

/// The same from the file itself.
/// @throws error(errc::invalid_argument) when it cannot be read, too
inline selection tuned_by(std::string const& file, int ranks) {
  std::ifstream from(file);
  std::string text;
  for (std::string line; std::getline(from, line);) text += line + '\n';
  if (!from.eof()) throw error(errc::invalid_argument, "cannot read the tuning file " + file);
  return tuned(text, ranks);
}

}  // namespace ringlet
