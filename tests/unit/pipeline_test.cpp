// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/pipeline.hpp"

#include <doctest/doctest.h>

using namespace ringlet;

TEST_CASE("the timelines of four stages as text") {
  CHECK(pipeline_timeline::of<all_forward_then_backward>(4, 4).text() ==
        "stage 0  F0 F1 F2 F3 .  .  .  .  .  .  B0 B1 B2 B3\n"
        "stage 1  .  F0 F1 F2 F3 .  .  .  .  B0 B1 B2 B3 .\n"
        "stage 2  .  .  F0 F1 F2 F3 .  .  B0 B1 B2 B3 .  .\n"
        "stage 3  .  .  .  F0 F1 F2 F3 B0 B1 B2 B3 .  .  .\n");
  CHECK(pipeline_timeline::of<one_forward_one_backward>(4, 4).text() ==
        "stage 0  F0 F1 F2 F3 .  .  .  B0 .  B1 .  B2 .  B3\n"
        "stage 1  .  F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3 .\n"
        "stage 2  .  .  F0 F1 .  B0 F2 B1 F3 B2 .  B3 .  .\n"
        "stage 3  .  .  .  F0 B0 F1 B1 F2 B2 F3 B3 .  .  .\n");
}

TEST_CASE("of an order that locks, what there is of it") {
  struct backward_first {
    int stage, stages, microbatches;
    constexpr unit_of_work operator[](int k) const {
      return {k == 0 ? unit_of_work::direction::backward : unit_of_work::direction::forward, 0};
    }
  };
  auto const t = pipeline_timeline::of<backward_first>(2, 1);
  CHECK_FALSE(t.complete());
  CHECK(t.length() == 0);
  CHECK(t.text() == "stage 0\nstage 1\n");
}
