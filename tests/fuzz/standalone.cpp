// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a fuzzer where the compiler has no libFuzzer: for a few seconds on random bytes, among them many digits and the
// bytes that formats are made of, and on mutations of what came before. It follows no coverage; the inputs of a run are
// those of its seed. `NAME [SECONDS [SEED]]`, or `NAME FILE` for one input.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);

int main(int argc, char** argv) {
  using clock = std::chrono::steady_clock;
  if (std::ifstream file; argc == 2 && (file.open(argv[1], std::ios::binary), file)) {
    std::vector<std::uint8_t> const input(std::istreambuf_iterator<char>(file), {});
    return LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  auto const end = clock::now() + std::chrono::seconds(argc > 1 ? std::atoi(argv[1]) : 5);
  std::mt19937 random(argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1);
  constexpr char usual[] = "0123456789:+-\n.(),xsgkyn\0\1\2\4\377";
  auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::vector<std::uint8_t> input;
  std::size_t inputs = 0;
  for (; clock::now() < end; ++inputs) {
    if (below(8) == 0) input.clear();
    for (std::size_t edits = 1 + below(16); edits-- > 0;) {
      auto const byte = static_cast<std::uint8_t>(
          below(2) == 0 ? random() : static_cast<unsigned char>(usual[below(sizeof usual - 1)]));
      auto const at = input.begin() + static_cast<std::ptrdiff_t>(below(input.size() + 1));
      if (at == input.end() || below(3) == 0)
        input.insert(at, byte);
      else if (below(2) == 0)
        *at = byte;
      else
        input.erase(at);
    }
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%zu inputs\n", inputs);
}
