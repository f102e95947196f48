// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A store that holds anything at all, as if another program had written to it: a rank that reads it must end with
// values or with an error, and soon.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ringlet/bootstrap/roster.hpp"
#include "ringlet/error.hpp"
#include "ringlet/store.hpp"

namespace {

// Takes what is set, and answers from the input: each answer begins with its length; where the input ends, nothing is
// known.
class hostile_store {
 public:
  explicit hostile_store(std::string_view answers) : answers_(answers) {}
  bool set(std::string_view, std::string_view) {
    auto const answer = next();
    return !answer || answer->size() % 8 != 7;
  }
  std::string get(std::string_view, ringlet::time_point) {
    auto const answer = next();
    if (!answer) throw ringlet::error(ringlet::errc::timed_out, "nobody has set it");
    return std::string(*answer);
  }

 private:
  std::optional<std::string_view> next() {
    if (answers_.empty()) return std::nullopt;
    std::size_t const length = static_cast<unsigned char>(answers_[0]);
    auto const answer = answers_.substr(1, length);
    answers_.remove_prefix(1 + answer.size());
    return answer;
  }
  std::string_view answers_;
};

template <class F>
void must_end(F f) {
  try {
    f();
  } catch (ringlet::error const& e) {
    // A kind that exists; anything else that is thrown ends the fuzzer.
    if (e.code().message() == "unknown") __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size < 2) return 0;
  int const ranks = 1 + data[0] % 4, rank = data[1] % ranks;
  hostile_store store({reinterpret_cast<char const*>(data + 2), size - 2});
  ringlet::bootstrap const self{rank, ranks, store};
  auto const deadline = std::chrono::steady_clock::now();
  must_end([&] { ringlet::agree(self, "slots=8", deadline); });
  must_end([&] {
    auto const values = ringlet::exchange(self, "fuzz", "mine", deadline);
    if (values.size() != static_cast<std::size_t>(ranks)) __builtin_trap();
  });
  return 0;
}
