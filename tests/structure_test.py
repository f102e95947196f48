#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that the tree is built as it says it is. The order of ringlet.hpp is the order of dependency: a header includes
only headers that stand before it. Operations name no transport, transports name no operation. A header in detail/ is a
part of the one header that includes it."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include/ringlet"
TOP = {"meson.build", "include", "bench", "tests", "examples", "LICENSE", "README.md"}
LONGEST_HEADER, CORE = 420, 2250  # lines; lines of code, without comments

faults = []


def check(holds, words):
    if not holds:
        faults.append(words)


def code(text):
    return re.sub(r"//.*|/\*.*?\*/", "", text)


def includes(text):
    return re.findall(r'^#include "ringlet/(.+)"', text, re.MULTILINE)


headers = {str(path.relative_to(INCLUDE)): path.read_text() for path in sorted(INCLUDE.rglob("*.hpp"))}
umbrella = headers.pop("ringlet.hpp")
order = [name for name in includes(umbrella) if name in headers]  # the compiler tells of the others
beside = set(re.findall(r"^//   ringlet/(.+\.hpp)$", umbrella, re.MULTILINE))
for name in [name for name in headers if name.startswith("detail/")]:
    owners = [other for other, text in headers.items() if name in includes(text)]
    check(len(owners) == 1, f"{name} is a part of one header, but {owners} include it")
    if owners and owners[0] in order:
        order.insert(order.index(owners[0]), name)
contracts_end = order.index("transport.hpp") + 1
outside = set()  # what is beside the table, and the parts of that
while beside:
    outside |= beside
    beside = {other for name in beside for other in includes(headers[name])} - outside - set(order)
wall = next(i for i, name in enumerate(order) if name.startswith("transport/"))
operations = order[contracts_end:wall]
transports = [name for name in headers if name.startswith("transport/")]

# The order of dependency.
check(len(set(order)) == len(order), "ringlet.hpp includes a header twice")
for name, text in headers.items():
    check(name in order or name in outside, f"ringlet.hpp does not include {name}")
    allowed = set(order[: order.index(name)]) if name in order else set(order) | outside
    for other in includes(text):
        check(other in allowed, f"{name} includes {other}, which does not stand before it in ringlet.hpp")

# The wall. A transport is named by its namespace or header, an operation by its header or as SOMETHING_operation.
transport_names = "|".join(pathlib.PurePath(name).stem for name in transports)
for name in operations:
    said = re.findall(rf"\b(?:{transport_names})\b", code(headers[name]))
    check(not said, f"{name} is an operation but names the transport {said}")
for name in transports:
    said = re.findall(r"\b\w+_operation\b", code(headers[name])) + [h for h in includes(headers[name]) if h in operations]
    check(not said, f"{name} is a transport but names the operation {said}")

# Sizes.
for name, text in headers.items():
    check(text.count("\n") <= LONGEST_HEADER, f"{name} is longer than {LONGEST_HEADER} lines: two ideas in one file")
core = sum(len([line for line in code(headers[name]).splitlines() if line.strip() not in {"", "RINGLET_ANY_EXEC"}]) for name in order[:wall])
check(core <= CORE, f"values, contracts and operations are {core} lines of code, more than {CORE}")

# If there is no test for it, it does not exist; and a test that no list names never runs.
for name in [name for name in headers if not name.startswith("detail/")]:
    stem = name.removesuffix(".hpp")
    tests = [ROOT / f"tests/unit/{stem}_test.cpp", ROOT / f"tests/static/{stem}.cpp", ROOT / f"tests/device/{stem}.cu"]
    check(any(path.exists() for path in tests), f"{name} has neither {' nor '.join(str(p.relative_to(ROOT)) for p in tests)}")
for folder in ["static", "fail", "unit", "suite", "model", "process", "hosts", "fabric", "device", "fuzz", "../examples"]:
    suite = ROOT / "tests" / folder
    listed = re.findall(r"'(.+?)'", (suite / "meson.build").read_text())
    for path in [*suite.rglob("*.cpp"), *suite.rglob("*.cu")]:
        name = path.relative_to(suite)
        check(str(name) in listed or str(name.with_suffix("")) in listed, f"{path.relative_to(ROOT)} is not in the list of its meson.build")

# The top level, and every file's form.
top = {path.name for path in ROOT.iterdir() if not path.name.startswith((".", "build"))}
check(top == TOP, f"the top level holds {sorted(top ^ TOP)} too much or too little")
version = re.search(r"version: '(\d+)\.(\d+)\.(\d+)'", (ROOT / "meson.build").read_text()).groups()
check(f"RINGLET_VERSION {int('%d%02d%02d' % tuple(map(int, version)))}\n" in headers["config.hpp"],
      f"config.hpp and meson.build ({'.'.join(version)}) state different versions")
for folder in ["include", "bench", "tests", "examples"]:
    for path in (ROOT / folder).rglob("*"):
        if path.suffix in {".hpp", ".cpp", ".cu", ".py", ".sh", ".build"}:
            text = path.read_text()
            check("SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception" in "".join(text.splitlines()[:2]),
                  f"{path.relative_to(ROOT)} does not state its licence first")
            check("\t" not in text, f"{path.relative_to(ROOT)} holds a tab")
            if path.suffix in {".hpp", ".cpp", ".cu"}:  # clang-format leaves comments alone
                check(max(map(len, text.splitlines())) <= 120, f"{path.relative_to(ROOT)} is wider than 120 columns")

print("\n".join(faults) or f"{len(headers)} headers, {core} lines of code in values, contracts and operations")
sys.exit(bool(faults))
