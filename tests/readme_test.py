#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""readme_test.py COMPILER...: the program in README.md compiles and runs as it stands there, and its excerpts compile."""

import pathlib
import re
import subprocess
import sys
import tempfile

readme = (pathlib.Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
program, excerpt, between_hosts, on_devices, axes = re.findall(r"```cpp\n(.*?)```", readme, re.DOTALL)
# Without nvcc, the host plays the devices.
for of_cuda, emulated in [("cuda_runtime", "emulated_runtime"), ("cuda_ipc<>", "cuda_ipc<ringlet::emulated_runtime>"),
                          ("cudaSetDevice", "ringlet::emulated_runtime::use")]:
    assert of_cuda in on_devices
    on_devices = on_devices.replace(of_cuda, emulated)
with tempfile.TemporaryDirectory() as folder:
    source, binary = pathlib.Path(folder) / "hello.cpp", pathlib.Path(folder) / "hello"
    source.write_text(program, encoding="utf-8")
    subprocess.run([*sys.argv[1:], "-O2", "-pthread", source, "-o", binary], check=True)
    subprocess.run([binary], check=True, timeout=60)

    # The excerpts need libraries, and what surrounds them in a program.
    for library, text, function in [
        ("-DHAS_ASIO", excerpt, "void train(std::vector<float>& gradient, void (*compute_a_little)())"),
        ("-DHAS_FABRIC", between_hosts,
         "void train(ringlet::bootstrap<ringlet::memory_store> const& who, std::vector<float>& activations)"),
        (None, on_devices, "void train(ringlet::bootstrap<ringlet::memory_store> const& who, int local_rank, "
                           "ringlet::emulated_runtime::stream stream)"),
        ("-DHAS_FABRIC", axes,
         "void train(ringlet::bootstrap<ringlet::memory_store> const& who, std::vector<float>& activations,"
         " std::vector<float>& gradient, std::vector<float>& weights)"),
    ]:
        if library is not None and library not in sys.argv:
            continue
        lines = text.splitlines()
        source.write_text("\n".join(
            ["#include <vector>", '#include "ringlet/ringlet.hpp"', *[line for line in lines if line.startswith("#include")],
             function, "{", *[line for line in lines if not line.startswith("#include")], "}"]), encoding="utf-8")
        subprocess.run([*sys.argv[1:], "-Wno-unused", "-fsyntax-only", source], check=True)
