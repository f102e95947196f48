// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "ringlet/error.hpp"
#include "ringlet/selection.hpp"

namespace ringlet {

/// The selection for `ranks` in the text of a file that `ringlet-perf --tune` has written: that for the largest number of
/// ranks that is not above it, or for the smallest there is; the defaults where the text has none. A line is `ranks=2 one_shot_bytes=16384 staged_bytes=4194304`; others begin with #.
/// @throws error(errc::invalid_argument) with the line that is none of these
inline selection tuned(std::string_view text, int ranks) {
  selection best;
  int best_ranks = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t const end = text.find('\n', begin) < text.size() ? text.find('\n', begin) : text.size();
    std::string const line(text.substr(begin, end - begin));
    begin = end + 1;
    if (line.empty() || line[0] == '#') continue;
    int of = 0, used = 0;
    selection its;
    if (std::sscanf(line.c_str(), "ranks=%d one_shot_bytes=%zu staged_bytes=%zu%n", &of, &its.one_shot_bytes,
                    &its.staged_bytes, &used) != 3 ||
        static_cast<std::size_t>(used) != line.size() || of < 1)
      throw error(errc::invalid_argument,
                  "a tuning file has the line '" + line.substr(0, 80) +
                      "', expected 'ranks=N one_shot_bytes=N staged_bytes=N': write it with ringlet-perf --tune");
    bool const nearer = of <= ranks ? best_ranks > ranks || of > best_ranks : best_ranks > ranks && of < best_ranks;
    if (best_ranks == 0 || nearer) best = its, best_ranks = of;
  }
  return best;
}

/// The same from the file itself.
/// @throws error(errc::invalid_argument) when there is no such file
inline selection tuned_by(std::string const& file, int ranks) {
  std::ifstream from(file);
  if (!from) throw error(errc::invalid_argument, "cannot read the tuning file " + file);
  return tuned(std::string(std::istreambuf_iterator<char>(from), {}), ranks);
}

}  // namespace ringlet
