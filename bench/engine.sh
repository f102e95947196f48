#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# bash bench/engine.sh PROGRAM: the instructions of PROGRAM's (see engine.cpp) all_reduce by the engine over those by hand.
# At most 1.03 is promised: exit status 1 when it is more, 77 (skipped) when there is no valgrind.
set -euo pipefail
program=$1

if ! command -v valgrind >/dev/null; then
  echo "skipped: valgrind is not installed"
  exit 77
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# instructions FUNCTION: of its two calls.
instructions() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect="$1" "$program" "$1" >"$log" 2>&1 ||
    { cat "$log" >&2; return 1; }
  sed -nE 's/^==[0-9]+== Collected *: *([0-9]+).*/\1/p' "$log"
}
engine=$(instructions by_engine)
hand=$(instructions by_hand)
awk -v engine="$engine" -v hand="$hand" 'BEGIN {
  printf "all_reduce of 1 MiB of floats, 2 ranks, instructions: engine %d, by hand %d, ratio %.4f (promised <= 1.03)\n",
         engine / 2, hand / 2, engine / hand
  exit !(engine <= 1.03 * hand)
}'
