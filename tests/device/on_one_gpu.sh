#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# tests/device/on_one_gpu.sh: everything worth knowing of one GPU, in less than 4 minutes: builds for it, checks all kernels with
# ranks that are blocks of one launch, times them beside a copy, checks the transport with ranks that are processes, and runs
# compute-sanitizer where there is one. The table goes to $OUT/on_one_gpu.txt too, if OUT names a folder. Ends with 77 without a
# GPU.
set -u
cd "$(dirname "$0")" || exit 1
work=$(mktemp -d)
out=${OUT:-$work}
trap 'rm -rf "$work"' EXIT

command -v nvcc >/dev/null || PATH=$PATH:/usr/local/cuda/bin
command -v nvcc >/dev/null || { echo "skipped: no nvcc"; exit 77; }
arch=sm_$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d .)
gpu=yes
[ "$arch" = sm_ ] && arch=sm_90 gpu=

build() { nvcc -std=c++20 -O2 -Werror all-warnings -I ../../include -cudart static -arch "$arch" "$1.cu" -o "$work/$(basename "$1")"; }
status=0
pids=()
begin=$SECONDS
for program in on_one_gpu ${gpu:+transport/cuda_runtime}; do
  build "$program" &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || { echo "could not build for $arch"; exit 1; }; done
[ -n "$gpu" ] || { "$work/on_one_gpu"; exit $?; }

# run NAME SECONDS COMMAND...: within its time, and its end is told.
run() {
  local name=$1 seconds=$2 code
  shift 2
  echo "== $name"
  timeout -k 5 "$seconds" "$@"
  code=$?
  [ $code -eq 0 ] || { echo "$name ended with $code"; [ $code -eq 77 ] || status=1; }
}
mkdir -p "$out" || exit 1
{
  nvidia-smi --query-gpu=name,driver_version,mig.mode.current,clocks.max.mem --format=csv
  nvcc --version | tail -1
  echo "built for $arch in $((SECONDS - begin)) s"
  run "ranks as blocks of one launch" 90 "$work/on_one_gpu"
  run "ranks as processes" 45 "$work/cuda_runtime"
  if command -v compute-sanitizer >/dev/null; then
    run "memory, by compute-sanitizer" 40 compute-sanitizer --tool memcheck --error-exitcode 9 "$work/on_one_gpu" --untimed
  else
    echo "no compute-sanitizer here"
  fi
  echo "ended with $status after $((SECONDS - begin)) s"
  exit "$status"
} 2>&1 | tee "$out/on_one_gpu.txt"
exit "${PIPESTATUS[0]}"
