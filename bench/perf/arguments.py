#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""arguments.py RINGLET-PERF: arguments that cannot work are refused with status 2, before any rank is started, in words
that say what was given and what to give, once."""

import os
import pathlib
import resource
import subprocess
import sys
import tempfile

program = sys.argv[1]
faults = []


def perf(*arguments, **more):
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False, **more)


def refused(arguments, *words, status=2, **more):
    done = perf(*arguments, **more)
    lines = [line for line in done.stderr.splitlines() if all(word in line for word in words)]
    if status == 2 and "Using ranks" in done.stdout:
        faults.append(f"{' '.join(arguments)}: ranks were started")
    if done.returncode != status or len(lines) != 1 or len(lines[0]) > 300:
        faults.append(f"{' '.join(arguments)}: status {done.returncode}, expected {status} and one short line with "
                      f"{words}:\n{done.stderr}")


for given in ("nan", "inf", "1e30", "-1", "0", "1e-9", "soon"):
    refused(["barrier", "-T", given], "--timeout", f"{given} was given: give seconds from 0.001 to 86400")
for option, given, words in [
    ("--ranks", "0", "give a number from 1 to 4096"),
    ("-n", "0", "give a number from 1 to 1073741824"),
    ("-w", "-1", "give a number from 0 to 1073741824"),
    ("-c", "nan", "give a number from 0 to 1073741824"),
    ("-f", "1", "give a number from 2 to 1073741824"),
    ("-i", "0", "give bytes from 1 to 281474976710656"),
    ("-e", "300000G", "give bytes from 0 to 281474976710656"),
    ("--slots", "-5", "-5 was given: give a number from 0"),
    ("--slots", "1", "slots is 1, expected 2 to 4096"),
]:
    refused(["all_reduce", option, given], words)

refused(["all_gather", "-o", "max"], "-o: is for all_reduce, reduce_scatter and reduce, not for all_gather")

# What memory cannot hold: seen before, or, where a limit is set that the machine's figures do not tell, while at it.
together = "buffers take 256 TiB a rank, 768 TiB for 3 ranks, and this machine has "
refused(["all_reduce", "--ranks", "3", "-b", "131072G", "-e", "131072G"], together, "give a smaller size (-e)")
refused(["all_reduce", "--transport", "in_process", "--ranks", "3", "-b", "131072G", "-e", "131072G"], together)
refused(["all_gather", "--ranks", "1", "-b", "256M", "-e", "256M"], "rank 0: no memory is given to this rank: ",
        "buffers take 512 MiB a rank, 512 MiB for 1 rank, and this machine has ", status=1,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20)))

with tempfile.TemporaryDirectory() as folder:
    tuning = pathlib.Path(folder) / "tuning"
    tuning.write_text("ranks=2 one_shot_bytes=many\n", encoding="utf-8")
    json = pathlib.Path(folder) / "json"
    refused(["all_reduce", "--explain", "--json", str(json)], "--explain excludes --json")
    if json.exists():
        faults.append("a file is left of results that there are none of")
    launched = {**os.environ, "RINGLET_RANK": "1", "RINGLET_SIZE": "2"}
    refused(["all_reduce", "--ranks", "3", "--tuning", str(tuning)], "'ranks=2 one_shot_bytes=many', expected")
    if perf("all_reduce", "--tuning", str(tuning), env=launched).stderr:
        faults.append("a rank that is not its machine's first one says, too, that the tuning file is wrong")
    tuning.write_text("ranks=2 one_shot_bytes=512 staged_bytes=0\n", encoding="utf-8")
    refused(["all_reduce", "--transport", "sockets", "--tuning", str(tuning)], "share memory, not for sockets")
refused(["all_reduce", "-r", "0"], "--root: is for broadcast and reduce")
for root in ("-2", "3"):
    refused(["reduce", "--ranks", "3", "-r", root], f"--root: {root} was given: give a number from -1 to 2")
refused(["all_reduce", "--tuning", "/nowhere"], "--tuning", "/nowhere")

mapped = "is for --transport shared_memory, in_process"
for transport, option, given, words in [
    ("shared_memory", "--provider", "tcp", "--provider: is for --transport"),
    ("in_process", "--interface", "=lo", "--interface: is for --transport"),
    ("sockets", "--slots", "4", f"--slots: {mapped}"),
    ("sockets", "--slot-bytes", "1K", f"--slot-bytes: {mapped}"),
    ("sockets", "--lanes", "1", f"--lanes: {mapped}"),
    ("sockets", "--board-bytes", "1K", f"--board-bytes: {mapped}, not for sockets"),
    ("sockets", "--stage-bytes", "1K", f"--stage-bytes: {mapped}"),
]:
    refused(["all_reduce", "--transport", transport, option, given], words)
refused(["all_reduce", "--transport", "in_process", "--emulated"], "--emulated: is for --transport cuda_ipc")

print("\n".join(faults))
sys.exit(bool(faults))
