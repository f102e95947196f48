#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# bash bench/engine.sh PROGRAM: the instructions of PROGRAM's (see engine.cpp) all_reduce by the engine over those by hand.
# At most 1.03 is promised, and that the counters of a communicator take at most 0.005 of a call: exit status 1 when it is
# more, 77 (skipped) when there is no valgrind.
set -euo pipefail
program=$1

if ! command -v valgrind >/dev/null; then
  echo "skipped: valgrind is not installed"
  exit 77
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# instructions FUNCTION [MODE]: of its calls in the program's mode, which is the function's name unless given.
instructions() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect="$1" "$program" "${2:-$1}" >"$log" 2>&1 ||
    { cat "$log" >&2; return 1; }
  sed -nE 's/^==[0-9]+== Collected *: *([0-9]+).*/\1/p' "$log"
}
engine=$(instructions by_engine)
hand=$(instructions by_hand)
call=$(instructions by_call)
counters=$(instructions '*::account(*' by_call)
awk -v engine="$engine" -v hand="$hand" -v call="$call" -v counters="$counters" 'BEGIN {
  printf "all_reduce of 1 MiB of floats, 2 ranks, instructions: engine %d, by hand %d, ratio %.4f (promised <= 1.03)\n",
         engine / 2, hand / 2, engine / hand
  printf "of a call directly between their memories %d, of these for counters %d, ratio %.4f (promised <= 0.005)\n",
         call / 4, counters / 4, counters / call
  exit !(engine <= 1.03 * hand && counters > 0 && counters <= 0.005 * call)
}'
