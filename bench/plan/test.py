#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""test.py RINGLET-PLAN PICTURE: the program's table, files and refusals; README's picture is what it draws."""

import json
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

PROGRAM, PICTURE = sys.argv[1], pathlib.Path(sys.argv[2])
# README.md shows this one.
SHOWN = ["--tensor", "8", "--state", "4", "--pipeline", "4", "--data", "8", "--batch", "512"]
RUN = {
    "model": {"parameters": 70e9, "layers": 80, "hidden": 8192},
    "training": {"batch": 512},
    "cluster": {"links": [{"name": "node", "gb_per_s": 400, "latency_us": 1.5, "devices": 8},
                          {"name": "network", "gb_per_s": 25, "latency_us": 5, "devices": 16384}]},
    "degrees": {"tensor": 8, "state": 4, "pipeline": 4, "data": 8},
}
folder = tempfile.TemporaryDirectory()
here = pathlib.Path(folder.name)
faults = []


def plan(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def check(holds, words):
    if not holds:
        faults.append(words)


def refused(words, *arguments):
    status, said = plan(*arguments)
    check(status == 2 and words in said, f"{arguments}: status {status}, {said!r}, not {words!r}")


def file(text):
    (here / "run.json").write_text(text, encoding="utf-8")
    return here / "run.json"


status, table = plan(*SHOWN, "--json", here / "plan.json", "--svg", here / "plan.svg")
check(status == 0, table)
rows = {line.split()[0]: line.split() for line in table.splitlines() if line}
check(rows["tensor"][1:3] == ["8", "node"], f"tensor's row is {rows['tensor']}")
check(rows["data"][1:3] == ["8", "network"], f"data's row is {rows['data']}")
check("3 of 16 + 3 units" in table, "the table does not say how many units of the pipeline are idle")
result = json.loads((here / "plan.json").read_text(encoding="utf-8"))
check(abs(result["idle_fraction"] - 3 / 19) < 1e-12, f"idle fraction is {result['idle_fraction']}")
check({axis["axis"] for axis in result["axes"]} == {"tensor", "state", "pipeline", "data"}, "an axis is not in the JSON")
drawn = (here / "plan.svg").read_text(encoding="utf-8")
forward = [e for e in xml.etree.ElementTree.fromstring(drawn).iter() if e.get("class") == "f"]
check(len(forward) == 4 * 16 + 1, f"{len(forward)} forward units are drawn, not 4 stages x 16 microbatches and the legend's")
check(drawn == PICTURE.read_text(encoding="utf-8"), f"{PICTURE} is not what `ringlet-plan {' '.join(SHOWN)} --svg` draws")

readme = (PICTURE.parent.parent.parent / "README.md").read_text(encoding="utf-8")
check("\n".join(line.rstrip() for line in table.splitlines()) in readme, "README.md shows another table")

# A file says the same as arguments, and arguments win.
check(plan(file(json.dumps(RUN)))[1] == table, "a file gives another table than the same arguments")
check(plan(file(json.dumps(RUN)), "--batch", "1024")[1] == plan(*SHOWN[:-1], "1024")[1], "an argument does not win")
# Without degrees it finds better ones.
status, best = plan("--batch", "512", "--json", here / "best.json")
check(status == 0, best)
check(json.loads((here / "best.json").read_text(encoding="utf-8"))["step"] <= result["step"], "the search finds worse")

check(plan("--help")[0] == 0 and "Examples:" in plan("--help")[1], "--help has no examples")
refused("8192 hidden values do not divide by tensor 3", "--tensor", 3)
refused("a batch of 1024 does not divide by data 3", "--data", 3)
refused("are 32768 devices, but link network, the last, joins 16384", "--tensor", 64, "--data", 512, "--batch", 8192)
refused("layers is 0: give a number above 0", "--layers", 0)
refused("hidden is -1: give a number above 0", "--hidden", -1)
refused("there is no link moon; there are node, network", "--on", "tensor=moon")
refused("there is no axis tensr", "--on", "tensr=node")
refused("is not AXIS=LINK", "--on", "tensor")
refused("is not NAME:GB/s:MICROSECONDS:DEVICES", "--link", "node:400:fast:8")
refused("the bandwidth of link node is 0", "--link", "node:0:1:8")
refused("list links from the one that joins fewest", "--link", "a:1:1:8", "--link", "b:1:1:8")
refused("8 devices of 80 GB are not enough", "--devices", 8)
refused("cannot write /nowhere/plan.json", "--json", "/nowhere/plan.json")
refused("does not exist", here / "no.json")
refused("parse error at line 3", file('{\n"model": {\n"layers" 80}}'))
refused('run.json, line 3: layers: "many" is not a number'.replace("a number", "a whole number"),
        file('{\n"model": {\n"layers": "many"}}'))
refused("run.json, line 2: there is no modle in the file; there are cluster", file('{\n"modle": {}}'))
refused("run.json, line 4: there is no layer in model", file('{"model":\n{\n"layers": 80,\n"layer": 1}}'))
refused("run.json, line 3: gb_per_s", file('{"cluster": {"links": [\n{"gb_per_s": 1},\n{"gb_per_s": "1"}]}}'))
refused("run.json, line 2: pipeline: there is no link moon", file('{\n"on": {"pipeline": "moon"}}'))
refused("there is array, not an object", file("[]"))

print("\n".join(faults) or "all right")
sys.exit(bool(faults))
