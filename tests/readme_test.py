#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""readme_test.py COMPILER...: the program in README.md compiles and runs as it stands there."""

import pathlib
import re
import subprocess
import sys
import tempfile

readme = (pathlib.Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
program = next(code for code in re.findall(r"```cpp\n(.*?)```", readme, re.DOTALL) if "int main" in code)
with tempfile.TemporaryDirectory() as folder:
    source, binary = pathlib.Path(folder) / "hello.cpp", pathlib.Path(folder) / "hello"
    source.write_text(program, encoding="utf-8")
    subprocess.run([*sys.argv[1:], "-O2", "-pthread", source, "-o", binary], check=True)
    subprocess.run([binary], check=True, timeout=60)
