// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Draws the ring: as text for the terminal, as a picture for the page.
//
//     build/examples/05_draw [RANKS [FILE]]
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "ringlet/cost.hpp"
#include "ringlet/draw.hpp"

// A schedule is a value: `ring{rank, size}[k]` says what the rank does in step k. Draw your own in the same way.
using ring = ringlet::ring_schedule<ringlet::collective::all_reduce>;

int main(int argc, char** argv) {
  int const size = argc > 1 ? std::atoi(argv[1]) : 4;
  char const* const file = argc > 2 ? argv[2] : "all_reduce.svg";
  if (size < 1) return std::fprintf(stderr, "%s: RANKS must be at least 1\n", argv[0]), 2;

  ringlet::drawing const picture = ringlet::draw<ring>(size);
  std::fputs(picture.text().c_str(), stdout);

  // What is drawn can be counted: arrows that leave a rank are what it sends.
  ringlet::traffic const each = ringlet::traffic_of<ring>(0, size);
  std::printf("each rank sends %d chunks, %.3g times the buffer; ", each.sent, static_cast<double>(each.sent) / size);
  std::printf("one in charge of all would carry %d times the buffer\n",
              ringlet::busiest(ringlet::collector{size}).carried / size);

  std::ofstream out(file);
  out << picture.svg();
  std::printf("the picture is in %s\n", file);
  return out.flush() ? 0 : 1;
}
