#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""test.py RINGLET-PERF TRANSPORT [ARGUMENT...]: a collector beside the ring, over that transport: at each size a row of
each, right to the bit, and what the busiest rank carries is what the derivation says. And broadcast and reduce: a row for
each root, right to the bit."""

import json
import pathlib
import subprocess
import sys
import tempfile

program, transport, *arguments = sys.argv[1:]
# Of float, cut into equal chunks, and too large for chords and for one shot.
RANKS, SIZES = 3, [24 << 10, 96 << 10, 384 << 10, 1536 << 10]
faults = []


def check(holds, words):
    if not holds:
        faults.append(words)


def perf(*more):
    return subprocess.run([program, *more, "--transport", transport, "--ranks", str(RANKS), *arguments],
                          capture_output=True, text=True, timeout=60, check=False)


def rows_of(collective, *more):
    """The rows of a small run; none when it failed."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "results.json"
        done = perf(collective, "-b", "8", "-e", "128K", "-f", "128", "-n", "2", "-w", "1", "-c", "2", "--json",
                    str(file), *more)
        check(done.returncode == 0, f"{collective} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return json.loads(file.read_text(encoding="utf-8"))["rows"] if done.returncode == 0 else []


with tempfile.TemporaryDirectory() as folder:
    file, picture = pathlib.Path(folder) / "results.json", pathlib.Path(folder) / "plot.svg"
    done = perf("all_reduce", "--beside", "collector", "-b", str(SIZES[0]), "-e", str(SIZES[-1]), "-f", "4", "-n", "3",
                "-w", "1", "-c", "2", "--json", str(file), "--svg", str(picture))
    print(done.stdout, done.stderr, sep="\n")
    if done.returncode != 0:
        sys.exit(f"it ended with {done.returncode}")
    rows, drawn = json.loads(file.read_text(encoding="utf-8"))["rows"], picture.read_text(encoding="utf-8")

check([(row["size"], row["root"]) for row in rows] == [(size, root) for size in SIZES for root in (-1, 0)],
      "not two rows for each size")
printed = [line.split() for line in done.stdout.splitlines() if line and not line.startswith("#")]
check([(int(row[0]), int(row[4])) for row in printed] == [(row["size"], row["root"]) for row in rows],
      "the table has other rows than the file")
check("Rows with root 0: the same by a collector" in done.stdout, "the table does not say what root 0 is")
check("float sum, by a collector" in drawn, "the plot has no curve for the collector")
for row in rows:
    for place in ("out_of_place", "in_place"):
        its = row[place]
        check(its["wrong"] == 0, f"{row['size']} B, root {row['root']}, {place}: {its['wrong']} wrong elements")
        # Rank 0 takes n-1 buffers in and gives n-1 out; in a ring each takes and gives 2(n-1)/n.
        buffers = its["busiest_rank_bytes"] / row["size"]
        right = 2 * (RANKS - 1) if row["root"] == 0 else 4 * (RANKS - 1) / RANKS
        check(buffers == right, f"{row['size']} B, root {row['root']}, {place}: {buffers} buffers, expected {right}")

for collective, op in (("broadcast", "none"), ("reduce", "sum")):
    for more, types, roots in ([("-d", "double"), {"double": 8}, [0]], [("-r", "-1"), {"float": 4}, [0, 1, 2]],
                               [("-r", "2", "-d", "all"), {"int8": 1, "half": 2, "f8e5m2": 1}, [2]]):
        rows = rows_of(collective, *more)
        for name, size in types.items():
            found = [(row["size"], row["count"], row["redop"], row["root"]) for row in rows if row["type"] == name]
            right = [(bytes, bytes // size, op, root) for bytes in (8, 1 << 10, 1 << 17) for root in roots]
            check(found == right, f"{collective} of {name}: rows {found}, expected {right}")
        for row in rows:
            for its in (row["out_of_place"], row["in_place"]):
                check(its["wrong"] == 0 and its["busbw"] == its["algbw"], f"{collective}: {row}")

if transport == "mixed":
    check("# Links: 1 inside hosts, 2 between" in done.stdout, "the table does not say which links there are")
for wrong in (["all_gather"], ["all_reduce", "-d", "double"], ["all_reduce", "-o", "max"]):
    refused = perf(*wrong, "--beside", "collector")
    check(refused.returncode == 2 and "collector" in refused.stderr, f"{' '.join(wrong)}: not refused: {refused.stderr}")

print("\n".join(faults))
sys.exit(bool(faults))
