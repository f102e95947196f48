#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vector_code.py SOURCE COMPILER...: the loops under `combine` become vector code on x86-64, and nothing else shows it.

Most of them are left to the compiler. With its vectoriser off they must be found at fault, or this looks at nothing."""

import platform
import re
import subprocess
import sys

ADD_LINES, FOLD_BLOCKS = "9add_linesINS_10arithmeticI", "11fold_blocksINS_10arithmeticI"
FLOAT16, BFLOAT16 = "NS_11small_floatILi5ELi10ELb1EEE", "NS_11small_floatILi8ELi7ELb1EEE"

# What a function's name contains, and instructions that it must have for 32 bytes at once.
BY_THE_COMPILER = [
    (FOLD_BLOCKS + "fNS_7productE", "vmulps"),
    (FOLD_BLOCKS + "fNS_7minimumE", "vcmp\\w*ps"),
    (FOLD_BLOCKS + "dNS_7productE", "vmulpd"),
    (FOLD_BLOCKS + "iNS_7maximumE", "vpmaxsd"),
    (FOLD_BLOCKS + "cNS_6bit_orE", "vp?or\\w*"),
    (FOLD_BLOCKS + FLOAT16 + "NS_7productE", "vmulps"),
    (FOLD_BLOCKS + BFLOAT16 + "NS_7maximumE", "vpslld"),
    (FOLD_BLOCKS + "fNS_13with_policiesINS_3sumEv" + BFLOAT16, "vaddps"),
]
BY_HAND = [
    (FOLD_BLOCKS + FLOAT16 + "NS_7productE", "vcvtph2ps"),
    (FOLD_BLOCKS + FLOAT16 + "NS_7productE", "vcvtps2ph"),
    (ADD_LINES + "fNS_3sumE", "vaddps"),
    (ADD_LINES + "fNS_3sumE", "vmovnt\\w*"),
    ("12stream_bytes", "vmovnt\\w*"),
]


def faults(expected, *flags):
    """Which functions lack what, with these flags."""
    source, *compiler = sys.argv[1:]
    code = subprocess.run([*compiler, "-O2", *flags, "-S", "-o", "-", source], stdout=subprocess.PIPE, text=True, check=True)
    functions = re.findall(r"^(_Z[\w.]+):(.*?)^\s*\.size\s+\1,", code.stdout, re.MULTILINE | re.DOTALL)
    return [f"{name}: no {instruction} of 32 bytes" for name, instruction in expected
            if not any(name in function and re.search(rf"^\s*{instruction}\s.*%ymm", body, re.MULTILINE)
                       for function, body in functions)]


if platform.machine() != "x86_64":
    print("skipped: not an x86-64")
    sys.exit(77)
found = faults(BY_THE_COMPILER + BY_HAND)
without = faults(BY_THE_COMPILER, "-fno-tree-vectorize", "-fno-tree-slp-vectorize")
if len(without) != len(BY_THE_COMPILER):
    found.append(f"without a vectoriser only these lack it: {without}")
print("\n".join(found) or f"{len(BY_THE_COMPILER + BY_HAND)} loops are vector code")
sys.exit(bool(found))
