#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times a collective of ringlet and of other libraries, side by side: sums of floats between processes of this machine.

All libraries go through the same loop (measure.hpp): rank r bound to the r-th processor (counted again from the first
where ranks outnumber them), every result checked, the same blocks of calls one after the other. Programs take turns,
and a figure is the median over all turns. A library with several variants gets the best of them at every size. The
limit is the same bytes moved with no synchronisation (limit.cpp). What is not installed is left out, and said.

Exit status: 0 all right, 1 wrong elements or a program that failed, 2 wrong arguments.

    bench/peers/run.py --install --apt                      # once: gets the libraries
    bench/peers/run.py --svg peers.svg --json peers.json    # two processes, all_reduce, 8 B to 128 MiB
    bench/peers/run.py --ranks 4 --collective reduce_scatter -b 64K -e 16M -f 4 --only ringlet 'Open MPI'
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile

import libraries
from plot import plot, size_text

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CPUS = len(os.sched_getaffinity(0))


class Program:
    """A library's program and what came of it."""

    def __init__(self, peer, command=()):
        self.peer, self.command, self.version, self.failure, self.wrong = peer, list(command), "", None, set()
        self.samples = {}  # (variant, bytes) -> times of all turns

    def build(self, folder):
        program = folder / f"{hash(tuple(self.peer.build)) & 0xffffffff:08x}"  # both of ringlet's are one
        self.command = [*self.peer.launch, str(program)]
        if not program.exists():
            built = subprocess.run([*self.peer.build, "-o", str(program)], capture_output=True, text=True)
            errors = [line for line in built.stderr.splitlines() if "error" in line] or built.stderr.splitlines()
            if built.returncode != 0:
                self.failure = f"does not build: {errors[0] if errors else built.returncode}"

    def run(self, variant, given, folder):
        """One turn."""
        arguments = [variant, given.ranks, given.collective, given.blocks, *given.sizes]
        process = subprocess.Popen(
            [part.format(ranks=given.ranks) for part in self.command] + [str(one) for one in arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
            # What they write to temporary folders goes with ours.
            env={**os.environ, "TMPDIR": str(folder), **self.peer.environment(given)}, start_new_session=True)
        try:
            output, errors = process.communicate(timeout=given.timeout)
        except subprocess.TimeoutExpired:
            output, errors = end(process), f"not ready after {given.timeout:g} s, see --timeout"
        except BaseException:
            end(process)
            raise
        wrong = set()
        for said in map(json.loads, filter(lambda line: line.startswith("{"), output.splitlines())):
            if "version" in said:
                self.version = said["version"]
                continue
            self.samples.setdefault((variant, said["bytes"]), []).append(said["us"])
            if said["wrong"]:
                wrong.add(said["bytes"])
        self.wrong |= wrong
        if process.returncode != 0 and not wrong:
            lines = [line.strip() for line in errors.splitlines() if re.search("[a-z]", line)]
            self.failure = lines[0] if lines else f"exit status {process.returncode}"

    def time(self, size):
        """The median of the best variant, or nothing."""
        times = [statistics.median(us) for (_, bytes), us in self.samples.items() if bytes == size]
        return min(times) if times and size not in self.wrong else None

    def detail(self):
        if self.peer.detail is not None:
            return self.peer.detail
        number = re.search(r"\d+(\.\d+)+", self.version)
        return number.group() if number else ""

    def label(self):
        return f"{self.peer.name} {self.detail()}".strip()


def end(process):
    """Ends a program and all that it started; what it had printed."""
    process.terminate()  # launchers end their ranks then
    try:
        return process.communicate(timeout=10)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


def table(programs, sizes):
    """The lines: a column a library, then how much faster than the best peer ringlet is, and how near to the limit."""
    kinds = {kind: [one for one in programs if one.peer.kind == kind] for kind in ["peer", "ours", "limit"]}
    ratios = [(f"{words} /", one, kinds[kind]) for words, kind in [("best peer", "peer"), ("limit", "limit")]
              for one in kinds["ours"] if kinds[kind]]
    heads = [(one.peer.name, one.detail()) for one in programs] + [(words, one.detail()) for words, one, _ in ratios]
    widths = [max(8, *map(len, head)) + 2 for head in heads]
    yield " " * 8 + "".join(head[0].rjust(width) for head, width in zip(heads, widths))
    yield "size".rjust(8) + "".join(head[1].rjust(width) for head, width in zip(heads, widths))
    for size in sizes:
        cells = []
        for one in programs:
            us = one.time(size)
            shown = "-" if us is None else f"{us:.2f}" if us < 100 else f"{us:.0f}"
            cells.append("WRONG" if size in one.wrong else shown)
        for _, one, others in ratios:
            best = min((other.time(size) for other in others if other.time(size)), default=None)
            cells.append(f"{best / one.time(size):.2f}" if best and one.time(size) else "-")
        yield size_text(size).rjust(8) + "".join(cell.rjust(width) for cell, width in zip(cells, widths))


def machine():
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
        model = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE).group(1)
    except (OSError, AttributeError):
        model = platform.machine()
    return f"{CPUS} processors of {model}, Linux {platform.release()}"


def size_value(text):
    match = re.fullmatch(r"(\d+)([KMG]?)", text.upper())
    if not match or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text} is no size such as 8, 64K, 16M")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collective", choices=libraries.COLLECTIVES, default="all_reduce")
    parser.add_argument("--ranks", type=int, default=2, help="processes (2)")
    parser.add_argument("-b", "--minbytes", type=size_value, default=8, help="smallest size of the whole buffer (8)")
    parser.add_argument("-e", "--maxbytes", type=size_value, default=128 << 20, help="largest size (128M)")
    parser.add_argument("-f", "--stepfactor", type=int, default=4, help="from one size to the next (4)")
    parser.add_argument("--turns", type=int, default=5, help="how often each program runs (5)")
    parser.add_argument("--blocks", type=int, default=5, help="blocks of calls timed at each size in a turn (5)")
    parser.add_argument("--transport", choices=["shm", "tcp"], default="shm",
                        help="what peers may use: shared memory, or only TCP over the loopback (shm)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these libraries alone; words of their names will do")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=COMMAND",
                        help="one more program, which is given measure.hpp's arguments")
    parser.add_argument("--peers", type=pathlib.Path, default=ROOT / "build/peers", metavar="DIR",
                        help="where --install has put what it got from PyPI (build/peers)")
    parser.add_argument("--install", action="store_true", help="get what is missing from PyPI (3 GB), into --peers")
    parser.add_argument("--apt", action="store_true", help="with --install: and from Debian, with apt-get")
    parser.add_argument("--timeout", type=float, default=300, help="seconds that one turn of a program may take (300)")
    parser.add_argument("--json", type=pathlib.Path, help="file for the results")
    parser.add_argument("--svg", type=pathlib.Path, help="file for a plot of time over size")
    given = parser.parse_args()
    if given.minbytes > given.maxbytes or given.stepfactor < 2 or min(given.ranks, given.turns, given.blocks) < 1:
        parser.error("-b is at most -e, -f at least 2; --ranks, --turns and --blocks at least 1")
    if any("=" not in one for one in given.also):
        parser.error("--also wants NAME=COMMAND")
    for file in filter(None, [given.json, given.svg]):  # better known before a long run than after it
        if not file.absolute().parent.is_dir():
            parser.error(f"{file}: no such folder")
    given.sizes = [given.minbytes]
    while given.sizes[-1] * given.stepfactor <= given.maxbytes:
        given.sizes.append(given.sizes[-1] * given.stepfactor)
    return given


def chosen(given):
    """The programs to run, and why others are left out."""
    peers = libraries.known(given.peers.absolute())
    if given.only:
        peers = [peer for peer in peers if any(word.lower() in peer.name.lower() for word in given.only)]
    if given.install:
        libraries.install(peers, given.apt)
    why = {id(peer): peer.left_out(given) for peer in peers}
    absent = dict.fromkeys(f"{peer.name} {why[id(peer)]}" for peer in peers if why[id(peer)])
    return [Program(peer) for peer in peers if not why[id(peer)]], list(absent)


def write(given, programs, absent, title, how):
    """The files that were asked for."""
    times = {one: {size: one.time(size) for size in given.sizes if one.time(size)} for one in programs}
    if given.json:
        results = {"collective": given.collective, "ranks": given.ranks, "transport": given.transport,
                   "turns": given.turns, "blocks": given.blocks, "machine": machine(),
                   "date": str(datetime.date.today()), "command": shlex.join(sys.argv), "left_out": absent,
                   "libraries": [{"library": one.peer.name, "detail": one.detail(), "version": one.version,
                                  "environment": one.peer.environment(given), "failure": one.failure,
                                  "wrong": sorted(one.wrong), "us": times[one]} for one in programs]}
        given.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    if given.svg:
        curves = [(one.label(), list(us.items()), one.peer.kind) for one, us in times.items() if us]
        given.svg.write_text(plot(title, how, curves) if curves else "", encoding="utf-8")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through what ends programs
    given = arguments()
    programs, absent = chosen(given)
    progress = sys.stderr.isatty()

    def doing(words):
        if progress:
            print(f"\r\033[K{words}", end="", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="ringlet-peers-") as name:
        folder = pathlib.Path(name)
        for one in programs:
            doing(f"building the program of {one.peer.name}")
            one.build(folder)
        for name, command in (text.split("=", 1) for text in given.also):
            programs.append(Program(libraries.Peer(name, ""), shlex.split(command)))
        for turn in range(given.turns):
            for one in programs:
                for variant in one.peer.variants:
                    doing(f"turn {turn + 1} of {given.turns}: {one.label()} {variant}")
                    if not one.failure:
                        one.run(variant, given, folder)
        doing("")

    title = f"{given.collective} between {given.ranks} processes" + (" over TCP" if given.transport == "tcp" else "")
    how = f"{machine()}; sums of floats, medians of {given.turns} turns, {datetime.date.today()}"
    shown = [one for one in programs if one.samples]
    if shown:
        print(f"{title}, time in us\n{how}\n", *table(shown, given.sizes), "", sep="\n")
    for words in absent:
        print(f"left out: {words}")
    for one in programs:
        if one.failure:
            print(f"FAILED: {one.label()}: {one.failure}")
        if one.wrong:
            print(f"WRONG RESULTS: {one.label()} at {', '.join(map(size_text, sorted(one.wrong)))}")
    write(given, programs, absent, title, how)
    return 1 if any(one.failure or one.wrong for one in programs) or not shown else 0


if __name__ == "__main__":
    sys.exit(main())
