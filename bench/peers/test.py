#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""test.py COMPILER...: run.py measures ringlet, says what is left out, draws well-formed SVG, notices wrong results."""

import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

HERE = pathlib.Path(__file__).resolve().parent
COMPILER = sys.argv[1:] or ["g++", "-std=c++20"]

# No library: every rank works out what all give. At 64 B, rank 0 is wrong about one element. At 256 B, rank 1 is, and
# as ranks do not talk to each other, rank 0 cannot tell.
FAULTY = """
#include "measure.hpp"
#include "ringlet/bootstrap/launch.hpp"
struct faulty : peers::library {
  using library::library;
  void all_reduce(float const*, float* out, std::size_t n) override {
    for (std::size_t i = 0; i < n; ++i) out[i] = peers::value(0, i) + peers::value(1, i);
    if (n == (rank == 0 ? 16 : 64)) out[n - 1] += 1;
  }
  double largest(double mine) override { return mine; }
};
int main(int argc, char** argv) {
  return peers::run(argc, argv, [](peers::task const& t) {
    return ringlet::launch(t.ranks, [&](auto who) {
      faulty f("Faulty 1.2", who.rank, who.size);
      return peers::measure(f, t);
    });
  });
}
"""


class Peers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        (cls.folder / "faulty.cpp").write_text(FAULTY, encoding="utf-8")
        subprocess.run([*COMPILER, "-O1", "-I", HERE, "-I", HERE.parent.parent / "include", cls.folder / "faulty.cpp",
                        "-o", cls.folder / "faulty", "-pthread"], check=True)

    def run_py(self, *arguments):
        command = [sys.executable, HERE / "run.py", "--turns", "1", "--blocks", "1", "--peers", self.folder,
                   "--also", f"Faulty={self.folder / 'faulty'}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240,
                              env={**os.environ, "CXX": shlex.join(COMPILER)})
        return done.returncode, done.stdout + done.stderr

    def test_right_results(self):
        json_file, svg_file = self.folder / "out.json", self.folder / "out.svg"
        status, said = self.run_py("--only", "ringlet", "Intel", "limit", "-b", "1K", "-e", "16K",
                                   "--json", str(json_file), "--svg", str(svg_file))
        self.assertEqual(status, 0, said)
        self.assertIn("left out: Intel MPI", said)
        rows = [line.split() for line in said.splitlines() if " KiB " in line]
        self.assertEqual([row[0] for row in rows], ["1", "4", "16"])
        libraries = json.loads(json_file.read_text())["libraries"]
        self.assertEqual([one["library"] for one in libraries], ["limit", "ringlet", "ringlet", "Faulty"])
        for one in libraries:
            self.assertEqual(list(one["us"]), ["1024", "4096", "16384"], one)
        # The last row's ratio of ringlet in ordinary memory to the only peer is that of the times shown.
        of_peer, of_ringlet = (libraries[i]["us"]["16384"] for i in (3, 1))
        self.assertAlmostEqual(float(rows[2][6]), of_peer / of_ringlet, delta=0.006)
        lines = ElementTree.parse(svg_file).findall("{http://www.w3.org/2000/svg}polyline")
        self.assertEqual(len(lines), 4)

    def test_wrong_result(self):
        status, said = self.run_py("--only", "nothing", "-b", "64", "-e", "64")
        self.assertEqual(status, 1, said)
        self.assertIn("WRONG RESULTS: Faulty at 64 B", said)

    def test_wrong_result_of_another_rank(self):
        status, said = self.run_py("--only", "nothing", "-b", "256", "-e", "256")
        self.assertEqual(status, 1, said)
        self.assertIn("FAILED: Faulty", said)

    def test_other_ranks(self):
        status, said = self.run_py("--only", "nothing", "--ranks", "3", "-b", "1K", "-e", "1K")
        self.assertEqual(status, 1, said)
        self.assertIn("WRONG RESULTS: Faulty", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
