#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles kernels and looks at the code that comes out, for what no run on a host can show.

    ptx_lint.py NVCC INCLUDE ARCH SOURCE [FLAG...]
    ptx_lint.py --self-test        plants faults in code that is right, each of which must be found

In every kernel: what other ranks write is read by acquiring, and what they read is written by releasing, both for the whole
system; nothing is loaded by the non-coherent path, which may show what was there before; no thread has memory of its own,
neither an array nor a spilled register; at most 128 registers, for blocks of 512 threads. And 16 bytes are loaded and stored
at once, by what reduces too and not only by what copies; but of 8-bit floats, which are calculated with 8 at a time, and
where lines of 16 bytes carry two words."""

import collections
import re
import subprocess
import sys
import tempfile

REGISTERS = 128

Kernel = collections.namedtuple("Kernel", "name code")


def kernels(ptx):
    parts = re.split(r"^\.visible \.entry (\S+?)\(", ptx, flags=re.MULTILINE)
    return [Kernel(name, code) for name, code in zip(parts[1::2], parts[2::2])]


def reduces(code, load):
    """Whether a value is calculated from two that came by such loads: what another rank gives, and this rank's own."""
    loaded, steps = set(), []  # registers with what came so, or was made of it
    for line in code.splitlines():
        found = re.match(r"[\s{]*(?:@!?%\w+\s+)?([a-z][\w.:]*)\s+(\{[^}]*\}|[^,;]+)(.*)", line)
        if not found:
            continue
        to, of = (set(re.findall(r"%\w+", part)) for part in found.groups()[1:])
        if re.match(load, found[1]):
            loaded |= to
        elif not re.match(r"(ld|st)\b", found[1]):
            steps.append((found[1], to, of))
    before = 0
    while len(loaded) != before:
        before = len(loaded)
        for _, to, of in steps:
            if of & loaded:
                loaded |= to
    return any(re.match(r"(add|mul|fma|min|max|setp)\b", what) and len(of & loaded) > 1 for what, _, of in steps)


def faults_of(ptx, report):
    """What is wrong with the code, and with what the assembler said of it."""
    found = kernels(ptx)
    faults = [] if found else ["there is no kernel"]
    for name, code in found:
        def check(holds, words):
            if not holds:
                faults.append(f"{name}: {words}")

        check(re.search(r"\bld\.acquire\.sys\b", code), "nothing is acquired from the whole system")
        check(re.search(r"\bst\.release\.sys\b", code), "nothing is released to the whole system")
        check(not re.search(r"\bld\.global(\.\w+)*\.nc\b", code), "loads by the non-coherent path")
        check(not re.search(r"\b(ld|st)\.local\b|^\s*\.local\b", code, re.MULTILINE), "has local memory")
        lines, bytes_only = "line_kernel" in name, re.search(r"small_floatILi[45]ELi[23]E", name)
        if lines:
            check(re.search(r"\bld\.relaxed\.sys\.global\.v2\.b64\b", code), "loads no lines whole")
            check(re.search(r"\bst\.relaxed\.sys\.global\.v2\.b64\b", code), "stores no lines whole")
        elif not bytes_only:
            wide = r"\b{}(\.global)?\.(v4\.[bufs]32|v2\.[bufs]64)\b"
            check(re.search(wide.format("ld"), code), "loads no 16 bytes at once")
            check(re.search(wide.format("st"), code), "stores no 16 bytes at once")
            if not re.search(r"\d+keepE", name):
                check(reduces(code, wide.format("ld")), "adds up nothing that was loaded 16 bytes at once")
    assembled = re.findall(r"Compiling entry function '(\S+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
                           r"(\d+) bytes spill loads.*?Used (\d+) registers", report, re.DOTALL)
    if len(assembled) != len(found):
        faults.append(f"the assembler speaks of {len(assembled)} kernels, there are {len(found)}")
    for name, stack, stores, loads, registers in assembled:
        if (stack, stores, loads) != ("0", "0", "0"):
            faults.append(f"{name}: {stack} bytes of stack, {stores} and {loads} bytes spilled")
        if int(registers) > REGISTERS:
            faults.append(f"{name}: {registers} registers, more than {REGISTERS}")
    return faults


RIGHT = """
.visible .entry ring_kernel(
  ld.acquire.sys.global.u64 %rd1, [%rd2];
  ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd3];
  st.global.v4.u32 [%rd4], {%r1, %r2, %r3, %r4};
  ld.v4.u32 {%r5, %r6, %r7, %r8}, [%rd6];
  @%p1 ld.v4.u32 {%r9, %r10, %r11, %r12}, [%rd7];
  mov.b32 %f1, %r5;
  { cvt.f32.bf16 %f2, %r9;}
  add.f32 %f3, %f1, %f2;
  st.release.sys.global.u64 [%rd5], %rd1;
"""
REPORT = """
ptxas info    : Compiling entry function 'ring_kernel' for 'sm_90'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers
"""
PLANTED = [
    ("ld.acquire.sys", "ld.relaxed.sys"),
    ("ld.acquire.sys", "ld.acquire.gpu"),
    ("st.release.sys", "st.relaxed.sys"),
    ("st.release.sys", "st.release.gpu"),
    ("ld.global.v4.u32", "ld.global.nc.v4.u32"),
    ("v4.u32 {", "v2.u32 {"),
    ("ld.v4.u32 {%r5, %r6, %r7, %r8}", "ld.u32 %r5"),
    ("ld.v4.u32 {%r9, %r10, %r11, %r12}", "ld.u32 %r9"),
    ("st.global.v4.u32", "st.global.u32"),
    ("st.global.v4.u32", "st.local.u32 [%rd9], %r1;\n  st.global.v4.u32"),
    (".visible .entry", ".func"),
    ("0 bytes stack", "8 bytes stack"),
    ("0 bytes spill stores", "4 bytes spill stores"),
    ("0 bytes spill loads", "4 bytes spill loads"),
    ("Used 128", "Used 129"),
    ("Compiling entry", "Compiling other"),
]


def self_test():
    missed = [f"{old!r} => {new!r}" for old, new in PLANTED
              if not faults_of(RIGHT.replace(old, new), REPORT.replace(old, new))]
    wrong = faults_of(RIGHT, REPORT)
    print("\n".join(wrong + missed) or f"{len(PLANTED)} planted faults found")
    return bool(wrong or missed)


def compiled(nvcc, include, arch, source, flags):
    with tempfile.TemporaryDirectory() as folder:
        common = [nvcc, "-std=c++20", "-O2", "-Werror", "all-warnings", "-I", include, "-arch", arch, *flags, source]
        run = subprocess.run([*common, "-cubin", "-keep", "-keep-dir", folder, "-Xptxas", "-v", "-o", f"{folder}/out.cubin"],
                             capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit(run.stdout + run.stderr)
        name = re.search(r"([^/]+)\.cu$", source)[1]
        with open(f"{folder}/{name}.ptx", encoding="utf-8") as ptx:
            return ptx.read(), run.stdout + run.stderr


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    ptx, report = compiled(*sys.argv[1:5], sys.argv[5:])
    faults = faults_of(ptx, report)
    print("\n".join(faults) or f"{len(kernels(ptx))} kernels are as they should be")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
