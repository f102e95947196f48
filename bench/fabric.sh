#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# bash bench/fabric.sh [RANKS] [BUILD]: rings over libfabric's TCP providers beside a ring of bare sockets, in turns, in a
# network namespace of their own with reno for congestion control: bbr, where it is the default, halves loopback. As root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ranks=${1:-2} build=$(cd "${2:-build}" && pwd)/bench rounds=${ROUNDS:-3}

if [ -z "${RINGLET_IN_NAMESPACE:-}" ]; then
  RINGLET_IN_NAMESPACE=1 exec unshare -n bash bench/fabric.sh "$ranks" "$build/.."
fi
ip link set lo up
sysctl -qw net.ipv4.tcp_congestion_control=reno
common=(--ranks "$ranks" -b 8 -e 64M -f 128 -n 10 -w 3)
for ((round = 0; round < rounds; ++round)); do
  "$build/socket_ring" "${common[@]}" | awk '!/#/ {print "sockets", $1, $2, $3}'
  for provider in net 'tcp;ofi_rxm'; do
    for memory in ordinary allocated; do
      "$build/ringlet-perf" all_reduce --transport fabric --provider "=$provider" --interface =lo --memory "$memory" "${common[@]}" 2>/dev/null |
        awk -v name="$provider,$memory" '!/#/ && NF {print name, $1, $10, $12}'
    done
  done
done | sort -k1,1 -k2,2n -k3,3n | awk '
  function show() { if (n) printf "%-22s %10s B  %10.1f us  %6.2f GB/s\n", name, size, time[int((n + 1) / 2)], rate[int((n + 1) / 2)] }
  BEGIN { print "# medians, in place" }
  $1 != name || $2 != size { show(); n = 0 }
  { name = $1; size = $2; ++n; time[n] = $3; rate[n] = $4 }
  END { show() }'
