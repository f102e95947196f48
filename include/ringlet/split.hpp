// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/all_gather.hpp"
#include "ringlet/bootstrap/roster.hpp"
#include "ringlet/clock.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/error.hpp"

namespace ringlet {
namespace detail {

// The ranks of one color, who meet over the communicator that they come from. All ranks of that take part in every
// exchange, whatever their color, and each picks its own.
template <class Parent>
class split_meeting {
 public:
  split_meeting(Parent& parent, int color, int key) : parent_(&parent) {
    struct wish {
      std::int32_t color, key;
      std::uint64_t token;
    };
    auto const me = static_cast<std::size_t>(parent.rank());
    std::vector<wish> all(static_cast<std::size_t>(parent.size()));
    all[me] = {color, key, random_token()};
    all_gather(parent, all);
    for (std::size_t r = 0; r < all.size(); ++r) {
      if (color < 0 ? r != me : all[r].color != color) continue;  // who wants none is alone
      auto at = members_.end();
      while (at != members_.begin() && all[r].key < all[at[-1]].key) --at;
      members_.insert(at, r);
    }
    token_ = all[members_[0]].token;
    while (members_[static_cast<std::size_t>(rank_)] != me) ++rank_;
  }

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  std::uint64_t token() const { return token_; }
  std::vector<std::string> exchange(std::string_view, std::string const& mine, time_point) {
    auto const me = static_cast<std::size_t>(parent_->rank());
    std::vector<std::uint64_t> lengths(static_cast<std::size_t>(parent_->size()));
    lengths[me] = mine.size();
    all_gather(*parent_, lengths);
    std::uint64_t longest = 0;
    for (auto length : lengths) longest = longest < length ? length : longest;
    std::string all(lengths.size() * longest, '\0');
    mine.copy(all.data() + me * longest, mine.size());
    all_gather(*parent_, all);  // as single bytes: a value may be larger than a slot
    std::vector<std::string> values;
    for (std::size_t r : members_) values.push_back(all.substr(r * longest, lengths[r]));
    return values;
  }

 private:
  Parent* parent_;
  std::vector<std::size_t> members_;  // ranks of the parent, by rank here
  std::uint64_t token_ = 0;
  int rank_ = 0;
};

}  // namespace detail

template <transport X, int Size>
std::optional<communicator<X>> communicator<X, Size>::split(int color, int key) {
  detail::split_meeting m(*this, color, key);
  communicator<X> part(m, session().options);
  if (color < 0) return std::nullopt;
  return part;
}

}  // namespace ringlet
