// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace perf {

/// One measurement.
struct result {
  double microseconds;
  double algbw, busbw;                 ///< GB/s, with nccl-tests' definitions
  std::optional<std::uint64_t> wrong;  ///< elements on all ranks; nothing when they were not checked
  std::optional<double> carried = {};  ///< bytes in and out of the rank that had most of both, in one call, if counted
};
/// One line of the table.
struct row {
  std::size_t bytes, count;
  std::string type, op;
  result out_of_place, in_place;
  int root = -1;              ///< -1 where there is none
  bool by_collector = false;  ///< instead of the collective itself
};

/// The table, as nccl-tests prints it. Only rank 0 speaks.
class report {
 public:
  explicit report(bool speaks) : speaks_(speaks), progress_(speaks && ::isatty(STDERR_FILENO) == 1) {}

  void header() const {
    if (!speaks_) return;
    std::printf("#\n# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place          \n", "",
                "", "", "", "");
    line("#", "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong");
    line("#", "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "");
    std::fflush(stdout);
  }
  /// On a terminal: what is being measured now.
  void doing(std::size_t bytes, char const* type, char const* op) const {
    if (progress_) std::fprintf(stderr, "\r\033[K# measuring %zu B of %s, %s ...", bytes, type, op);
  }
  void add(row r) {
    for (result const* one : {&r.out_of_place, &r.in_place}) {
      if (!r.by_collector) sum_ += one->busbw, ++summed_;
      if (one->wrong.value_or(0) != 0) ++wrong_;
    }
    if (progress_) std::fputs("\r\033[K", stderr);
    if (speaks_) {
      std::printf("%12zu  %12zu  %8s  %6s  %6d", r.bytes, r.count, r.type.c_str(), r.op.c_str(), r.root);
      for (result const* one : {&r.out_of_place, &r.in_place})
        std::printf("  %7s  %6.2f  %6.2f  %5s", time(one->microseconds).c_str(), one->algbw, one->busbw,
                    one->wrong ? std::to_string(*one->wrong).c_str() : "N/A");
      std::printf("\n");
      std::fflush(stdout);
    }
    rows_.push_back(std::move(r));
  }
  void footer() const {
    if (!speaks_) return;
    std::printf("# Out of bounds values : %d %s\n# Avg bus bandwidth    : %g \n#\n", wrong_,
                wrong_ == 0 ? "OK" : "FAILED", average_busbw());
  }

  std::vector<row> const& rows() const { return rows_; }
  /// Of the collective itself.
  double average_busbw() const { return summed_ == 0 ? 0 : sum_ / summed_; }
  /// Measurements with wrong elements.
  int wrong() const { return wrong_; }

 private:
  static void line(char const* begin, char const* size, char const* count, char const* type, char const* op,
                   char const* root, char const* time, char const* algbw, char const* busbw, char const* wrong) {
    std::printf("%s %10s  %12s  %8s  %6s  %6s", begin, size, count, type, op, root);
    for (int place = 0; place < 2; ++place) std::printf("  %7s  %6s  %6s %6s", time, algbw, busbw, wrong);
    std::printf("\n");
  }
  static std::string time(double microseconds) {
    char text[32];
    int const decimals = microseconds >= 10'000 ? 0 : microseconds >= 100 ? 1 : 2;
    std::snprintf(text, sizeof text, "%.*f", decimals, microseconds);
    return text;
  }

  bool speaks_, progress_;
  std::vector<row> rows_;
  double sum_ = 0;
  int wrong_ = 0, summed_ = 0;
};

}  // namespace perf
