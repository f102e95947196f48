// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/draw.hpp"

#include <doctest/doctest.h>

#include <string>

#include "../svg.hpp"

using namespace ringlet;

namespace {

using all_reduce_ring = ring_schedule<collective::all_reduce>;

// The ring, but every chunk goes on to the rank where it began, which adds to it a second time.
struct once_too_often {
  static constexpr collective does = collective::reduce_scatter;
  int rank, size;
  constexpr int steps() const { return size + 1; }
  constexpr step operator[](int k) const {
    return {{k > 0, k > 0, k == size, k < size}, (rank - 1 - k + 2 * size) % size};
  }
};
// All ranks receive before they send.
struct all_wait {
  static constexpr collective does = collective::all_gather;
  int rank, size;
  constexpr int steps() const { return 1; }
  constexpr step operator[](int) const { return {{true, false, true, true}, 0}; }
};
// Keeps what only it has given.
struct keeps_too_early {
  static constexpr collective does = collective::all_reduce;
  int rank, size;
  constexpr int steps() const { return 1; }
  constexpr step operator[](int) const { return {{false, false, true, false}, rank}; }
};

}  // namespace

TEST_CASE("pipelines from and to a root as text") {
  CHECK(draw<ring_schedule<collective::broadcast>>(3).text() ==
        "broadcast among 3 ranks   (chunk:contributions, * kept, > sent on)\n"
        "        step 0  step 1  step 2\n"
        "rank 0  0:1*>   1:1*>   2:1*>\n"
        "rank 1  0:1*>   1:1*>   2:1*>\n"
        "rank 2  0:1*    1:1*    2:1*\n");
  CHECK(draw<ring_schedule<collective::reduce>>(3).text() ==
        "reduce among 3 ranks   (chunk:contributions, * kept, > sent on)\n"
        "        step 0  step 1  step 2\n"
        "rank 0  0:3*    1:3*    2:3*\n"
        "rank 1  0:1>    1:1>    2:1>\n"
        "rank 2  0:2>    1:2>    2:2>\n");
}

TEST_CASE("the ring among four ranks as text") {
  CHECK(draw<all_reduce_ring>(4).text() ==
        "all_reduce among 4 ranks   (chunk:contributions, * kept, > sent on)\n"
        "        step 0  step 1  step 2  step 3  step 4  step 5  step 6\n"
        "rank 0  3:1>    2:2>    1:3>    0:4*>   3:4*>   2:4*>   1:4*\n"
        "rank 1  0:1>    3:2>    2:3>    1:4*>   0:4*>   3:4*>   2:4*\n"
        "rank 2  1:1>    0:2>    3:3>    2:4*>   1:4*>   0:4*>   3:4*\n"
        "rank 3  2:1>    1:2>    0:3>    3:4*>   2:4*>   1:4*>   0:4*\n");
}

TEST_CASE("in an all-gather one contribution is all there is") {
  CHECK(draw<ring_schedule<collective::all_gather>>(2).text() ==
        "all_gather among 2 ranks   (chunk:contributions, * kept, > sent on)\n"
        "        step 0  step 1\n"
        "rank 0  0:1*>   1:1*\n"
        "rank 1  1:1*>   0:1*\n");
}

TEST_CASE("a world of one") {
  CHECK(draw<all_reduce_ring>(1).text() ==
        "all_reduce among 1 rank   (chunk:contributions, * kept, > sent on)\n"
        "        step 0\n"
        "rank 0  0:1*\n");
  CHECK(well_formed(draw<all_reduce_ring>(1).svg()));
}

TEST_CASE("a wrong schedule shows where it is wrong") {
  CHECK(draw<once_too_often>(2).text() ==
        "reduce_scatter among 2 ranks   (chunk:contributions, * kept, > sent on)\n"
        "        step 0  step 1  step 2\n"
        "rank 0  1:1>    0:2>    1:3?*\n"
        "rank 1  0:1>    1:2>    0:3?*\n");
  CHECK(occurrences(draw<all_wait>(3).text(), "0:-*>") == 3);
  CHECK(occurrences(draw<keeps_too_early>(2).text(), "1?*") == 2);
}

TEST_CASE("the picture is a whole SVG file that needs nothing else") {
  for (int n : {2, 4, 16}) {
    CAPTURE(n);
    CHECK(stands_alone(draw<all_reduce_ring>(n).svg()));
  }
}

TEST_CASE("the picture has every rank, step, chunk and arrow") {
  int const n = 4, steps = 2 * n - 1, rows = n + 1;  // rank 0 stands below the last once more
  std::string const svg = draw<all_reduce_ring>(n).svg();
  CHECK(occurrences(svg, "class=\"rank\"") == rows);
  CHECK(occurrences(svg, "class=\"step\"") == steps);
  CHECK(occurrences(svg, "class=\"chunk\"") == rows * steps + 2);  // and two in the legend
  CHECK(occurrences(svg, "l-8 -5v10z") == n * (steps - 1) + 1);    // heads of arrows
  CHECK(occurrences(svg, "M42 10l4 4 7-8") == rows * n + 1);       // marks of what is kept
  CHECK(occurrences(svg, "\"red\"") == 0);
  CHECK(occurrences(draw<keeps_too_early>(n).svg(), "\"red\"") == rows);
}
