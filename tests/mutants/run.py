#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests the tests: plants bugs in copies of the headers, and the test named beside each bug must catch it.

    run.py [--check] [--seconds S] [LIST.txt...]

All lists of this folder unless some are named; --check only looks for stale bugs; what is not begun within S seconds is
skipped, and said.

A list groups bugs by the promise that they break. Lines that begin with ; are comments.

    # every element gets every contributor once
    schedule.hpp | (rank + 1) % size => (rank + 2) % size | static/proof.cpp
    transport/slot_ring.hpp | order::release => order::relaxed | unit/transport/slot_ring_test.cpp -fsanitize=thread

that is: a header of include/ringlet; the old text, which must stand there once, and the new one (\\n is a new line);
the test's source in tests/, with compiler flags if it needs some. A test in static/ catches a bug by a static_assert.
Any other is built with doctest and run, and catches it by failing, by crashing or by passing its time limit.
The compiler is CXX; without it c++ for what is proved, and for what is run clang++ where there is one: each is the
faster at its work.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
HEADERS = TESTS.parent / "include/ringlet"
CXX = os.environ.get("CXX", "").split()
LANGUAGE = ["-std=c++20", "-pthread"]
PROVER = [*(CXX or ["c++"]), *LANGUAGE, "-fsyntax-only", "-Wfatal-errors"]  # the first failure tells enough
BUILDER = [*(CXX or [shutil.which("clang++") or "c++"]), *LANGUAGE]
BUILD_SECONDS, RUN_SECONDS, AT_ONCE = 300, 60, 2
PATIENCE, TIMES = 5, 5  # what hangs is given so many seconds, and so many times what the test takes without a bug

Bug = collections.namedtuple("Bug", "place promise header old new test")


class Unusable(Exception):
    """A bug that proves nothing: it no longer applies, or does not compile."""


def read(path):
    promise = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line, place = line.strip(), f"{path.name}:{number}"
        if line.startswith("#"):
            promise = line.strip("# ")
        elif line and not line.startswith(";"):
            parts = re.fullmatch(r"(\S+) \| (.+?) =>(?: (.*?))? \| (\S.*)", line)
            if not parts or not promise:
                sys.exit(f"{place}: not `header | old => new | test` below a `# promise`")
            header, old, new, test = (part.replace(r"\n", "\n") for part in parts.groups(default=""))
            yield Bug(place, promise, header, old, new, test)


def mutated(bug):
    """The header's text with the bug in it."""
    path = HEADERS / bug.header
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if text.count(bug.old) != 1:
        raise Unusable(f"stale, the old text stands {text.count(bug.old)} times in {bug.header}")
    if not (TESTS / bug.test.split()[0]).exists():
        raise Unusable(f"stale, there is no {bug.test.split()[0]}")
    return text.replace(bug.old, bug.new)


def stale(bug):
    """Why the bug no longer applies, or None."""
    try:
        mutated(bug)
    except Unusable as fault:
        return f"{bug.place}: {fault}"


def run(command, seconds):
    """Status (None where the time was up) and output. Ends whatever the command started."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return None, "time limit"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def build(*arguments):
    status, output = run([*BUILDER, *arguments], BUILD_SECONDS)
    if status != 0:
        raise Unusable(f"does not compile:\n{output}")


def constexpr_budget():
    """What lets the compiler at hand finish a long proof, as in static/meson.build."""
    flags = ["-fconstexpr-steps=2000000000", "-fconstexpr-ops-limit=2000000000"]
    nothing = ["-Werror", "-x", "c++", os.devnull]
    return [flag for flag in flags if run([*PROVER, flag, *nothing], BUILD_SECONDS)[0] == 0]


def prelude():
    """What bugs do not touch and nearly all tests include: doctest, and all of the standard library that headers do."""
    texts = [path.read_text(encoding="utf-8") for path in HEADERS.rglob("*.hpp")]
    names = {name for text in texts for name in re.findall(r"^#include <(\w+)>$", text, re.MULTILINE)}
    return "".join(f"#include <{name}>\n" for name in ["doctest/doctest.h", *sorted(names)])


class Workshop:
    """A folder in which headers meet tests, and doctest's own code and the prelude, compiled once a set of flags."""

    def __init__(self, folder, tests, end):
        self.end = end
        self.folder, self.budget, self.mains, self.seconds = pathlib.Path(folder), constexpr_budget(), {}, {}
        for flags in {tuple(test.split()[1:]) for test in tests if not test.startswith("static/")}:
            place = self.folder / f"flags{len(self.mains)}"
            place.mkdir()
            (place / "prelude.hpp").write_text(prelude(), encoding="utf-8")
            build("-c", "-x", "c++-header", place / "prelude.hpp", *flags, "-o", place / "prelude.hpp.gch")
            build("-c", TESTS / "main.cpp", *flags, "-o", place / "main.o")
            self.mains[flags] = place

    def outcome(self, test, header=None, text=None):
        """How the test failed, or None where it passed, with `text` in place of one header if one is named."""
        source, *flags = test.split()
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            include = pathlib.Path(place)
            shutil.copytree(HEADERS, include / "ringlet")
            if header:
                (include / "ringlet" / header).write_text(text, encoding="utf-8")
            arguments = ["-I", include, *flags, TESTS / source]
            if source.startswith("static/"):
                status, output = run([*PROVER, *arguments, *self.budget], BUILD_SECONDS)
                if status == 0:
                    return None
                # A bug that breaks the language is caught by every test, and says nothing of this one.
                if status is not None and not re.search("error: .*(static.assert|constant expression)", output):
                    raise Unusable(f"does not compile:\n{output}")
                return "the compiler"
            given = self.mains[tuple(flags)]
            build("-include", given / "prelude.hpp", *arguments, given / "main.o", "-o", include / "test")
            begin = time.monotonic()
            status, output = run([include / "test", "--abort-after=1"], self.seconds.get(test, RUN_SECONDS))
            if not header:
                self.seconds[test] = PATIENCE + TIMES * (time.monotonic() - begin)
        if status is None:
            return "its time limit"
        if "ThreadSanitizer: data race" in output:
            return "Thread Sanitizer"
        return None if status == 0 else "a crash" if status < 0 else "a check"

    def control(self, test):
        """Without any bug the test must pass, or it would seem to catch them all."""
        try:
            how = self.outcome(test)
            return how and f"{test} fails without any bug, by {how}"
        except Unusable as fault:
            return f"{test} {fault}"

    def judge(self, bug):
        """Whether the bug was caught, None where there was no time to see, and a line for the table."""
        begin = time.monotonic()
        if begin > self.end:
            return None, f"{bug.place}: skipped, no time was left"
        try:
            how = self.outcome(bug.test, bug.header, mutated(bug))
            verdict = f"killed by {how}" if how else f"SURVIVED {bug.test}"
        except Unusable as fault:
            how, verdict = None, f"UNUSABLE, {fault}"
        seconds = time.monotonic() - begin
        return how is not None, f"{bug.place} ({seconds:.1f} s) {bug.header}: {bug.old!r} => {bug.new!r}: {verdict}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only look for bugs that no longer apply")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing later than so (no limit)")
    parser.add_argument("lists", nargs="*", type=pathlib.Path, default=sorted((TESTS / "mutants").glob("*.txt")))
    options = parser.parse_args()
    bugs = [bug for path in options.lists for bug in read(path)]

    if options.check:
        faults = list(filter(None, map(stale, bugs)))
        print(*faults, f"{len(bugs)} planted bugs, {len(faults)} stale", sep="\n")
        return len(faults) > 0

    tests = dict.fromkeys(bug.test for bug in bugs if not stale(bug))
    missed, skipped, promise = [], 0, None
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        workshop = Workshop(folder, tests, time.monotonic() + options.seconds)
        broken = list(filter(None, pool.map(workshop.control, tests)))
        print("\n".join(broken) or f"{len(bugs)} bugs; the {len(tests)} tests that are to catch them pass without any")
        for bug, (caught, line) in zip(bugs, pool.map(workshop.judge, [] if broken else bugs)):
            if bug.promise != promise:
                promise = bug.promise
                print(f"\n{promise}")
            print(f"  {line}", flush=True)
            skipped += caught is None
            if caught is False:
                missed.append(line)
    if missed:
        print("\nnot caught:", *missed, sep="\n  ")
    failed = len(bugs) if broken else len(missed)
    print(f"\n{len(bugs) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
