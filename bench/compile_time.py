#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bench/compile_time.py [-n REPETITIONS] [-c COMPILER]... [--json FILE]

CPU seconds that a translation unit with 0, 1, 10 and 100 instantiations of ringlet's collectives takes to compile with
-O2, through ringlet.hpp and through the headers it needs alone, and the bytes of text in its object file; medians.
Promised: ringlet.hpp and one instantiation in 1.5 s; 8 KiB of text for one all_reduce more."""

import argparse
import itertools
import json
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

INCLUDE = pathlib.Path(__file__).resolve().parent.parent / "include"
COLLECTIVES = ["all_reduce", "reduce_scatter"]
OPERATORS = ["sum", "maximum", "minimum", "product", "average"]
TYPES = ["float", "double", "std::int32_t", "std::uint8_t", "ringlet::float16", "ringlet::bfloat16", "std::int64_t",
         "std::uint32_t", "std::uint64_t", "std::int8_t"]
NEEDED = ["transport/shared_memory", "all_reduce", "reduce_scatter"]


def unit(count, umbrella):
    """A translation unit whose first `count` instantiations are all_reduces before they are anything else."""
    headers = ["ringlet"] if umbrella else NEEDED
    lines = [f'#include "ringlet/{header}.hpp"' for header in headers]
    lines += ["using communicator = ringlet::communicator<ringlet::shared_memory>;",
              "template <class T> struct range { T* at; std::size_t n; T* data() const { return at; } "
              "std::size_t size() const { return n; } };"]
    # Types vary fastest: a type more is what a user adds most often.
    every = itertools.product(COLLECTIVES, OPERATORS, TYPES)
    for i, (collective, operator, kind) in enumerate(itertools.islice(every, count)):
        lines.append(f"void f{i}(communicator& c, range<{kind} const> in, range<{kind}> out) "
                     f"{{ ringlet::{collective}(c, in, out, ringlet::{operator}{{}}); }}")
    return "\n".join(lines) + "\n"


def compiled(compiler, source, repetitions):
    """Median CPU seconds, and bytes of text."""
    with tempfile.TemporaryDirectory() as folder:
        cpp, obj = os.path.join(folder, "unit.cpp"), os.path.join(folder, "unit.o")
        pathlib.Path(cpp).write_text(source, encoding="utf-8")
        times = []
        for _ in range(repetitions):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([compiler, "-std=c++20", "-O2", "-I", str(INCLUDE), "-c", cpp, "-o", obj], check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
        sections = subprocess.run(["size", "-A", obj], check=True, capture_output=True, text=True).stdout
        text = sum(int(size) for size in re.findall(r"^\.text\S*\s+(\d+)", sections, re.MULTILINE))
        return statistics.median(times), text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--repetitions", type=int, default=3, help="medians of so many (3)")
    parser.add_argument("-c", "--compiler", action="append", help="g++ and clang++ unless given; may be given again")
    parser.add_argument("--json", help="file for the results")
    given = parser.parse_args()
    results, kept = [], True
    for compiler in given.compiler or ["g++", "clang++"]:
        if shutil.which(compiler) is None:
            print(f"{compiler}: not found, skipped")
            continue
        print(f"{compiler:8}  {'through':12}  {'instantiations':>14}  {'CPU (s)':>8}  {'text (B)':>9}  {'each (s)':>8}  {'each (B)':>8}")
        for umbrella in [True, False]:
            through = "ringlet.hpp" if umbrella else "parts"
            rows = {}
            for count in [0, 1, 10, 100]:
                repetitions = given.repetitions if count < 100 else 1
                rows[count] = compiled(compiler, unit(count, umbrella), repetitions)
                seconds, text = rows[count]
                each = ""
                if count > 1:  # more than the first
                    more = [(a - b) / (count - 1) for a, b in zip(rows[count], rows[1])]
                    each = f"  {more[0]:8.3f}  {more[1]:8.0f}"
                print(f"{compiler:8}  {through:12}  {count:14}  {seconds:8.2f}  {text:9}{each}", flush=True)
                results.append({"compiler": compiler, "through": through, "instantiations": count,
                                "cpu_seconds": seconds, "text_bytes": text})
            if umbrella:
                one = (rows[10][1] - rows[1][1]) / 9
                for name, value, limit in [("ringlet.hpp and one instantiation, CPU seconds", rows[1][0], 1.5),
                                           ("one all_reduce more, bytes of text", one, 8192)]:
                    kept = kept and value <= limit
                    print(f"{compiler:8}  {name}: {value:.4g}, promised <= {limit:g}: {'kept' if value <= limit else 'MISSED'}")
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
