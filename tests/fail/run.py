#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""run.py FILE COMPILER...: FILE must not compile, and the compiler must say all words of its `// error: WORDS` lines.

With RINGLET_CONTROL defined, the right use takes the place of the wrong one and the file must compile, so that a
file that fails for some other reason is found out.
"""

import re
import subprocess
import sys

file, *compiler = sys.argv[1:]
with open(file, encoding="utf-8") as source:
    expected = re.findall(r"^// error: (.+?)\s*$", source.read(), re.MULTILINE)
if not expected:
    sys.exit(f"{file}: no line `// error: WORDS`")


def compile_with(*flags):
    command = [*compiler, "-fsyntax-only", "-Wno-unused", "-Wno-unused-const-variable", *flags, file]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


control = compile_with("-DRINGLET_CONTROL")
if control.returncode != 0:
    sys.exit(f"{file}: the right use must compile:\n{control.stdout}")

wrong = compile_with()
if wrong.returncode == 0:
    sys.exit(f"{file}: compiles, but must not")
said = " ".join(wrong.stdout.split())
missing = [words for words in expected if words not in said]
if missing:
    sys.exit(f"{file}: the compiler did not say {missing}, but:\n{wrong.stdout}")
