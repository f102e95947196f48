// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace model {

/// What must hold, or this trial has failed.
inline void expect(bool holds, std::string const& words) {
  if (!holds) throw std::logic_error(words);
}

/// A source of decisions, the same for the same seed everywhere (splitmix64: Steele, Lea and Flood, 2014).
class dice {
 public:
  explicit dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t any() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t end) { return any() % end; }
  std::uint64_t between(std::uint64_t least, std::uint64_t most) { return least + below(most - least + 1); }
  bool one_in(std::uint64_t times) { return below(times) == 0; }

 private:
  std::uint64_t state_;
};

/// What answers, but for when it is silent for a while.
class mood {
 public:
  /// @param temper it falls silent once in so many times; 0 for never
  mood(dice& d, unsigned temper) : dice_(&d), temper_(temper) {}
  bool answers() {
    if (silent_ == 0 && temper_ != 0 && dice_->one_in(temper_)) silent_ = dice_->between(1, 30);
    if (silent_ == 0) return true;
    --silent_;
    return false;
  }

 private:
  dice* dice_;
  unsigned temper_;
  std::uint64_t silent_ = 0;
};

}  // namespace model
