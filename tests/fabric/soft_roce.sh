#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
  cat <<'END'
bash tests/fabric/soft_roce.sh [--build DIR] [--cache DIR] [--seconds N] [--only PATTERN]

Runs the fabric transport over RDMA verbs (verbs;ofi_rxm), where there is neither the hardware nor a kernel that knows
it: a virtual machine boots Debian's kernel, with Soft-RoCE, on the files of this one, which it reads and does not
change. It shows whether results are right and failures are noticed, and nothing of speed: where KVM does not work, the
processors are emulated, and all of it takes an hour. Installs what it needs; folders are seen from the repository's
root. Ends with `N passed, N failed, N skipped`.

  --build DIR      where ringlet is built (build)
  --cache DIR      where the kernel stays for the next run, 400 MB; without, 70 MB are downloaded each time
  --seconds N      how long the virtual machine may run (5400); what has not been run then has failed
  --only PATTERN   of the checks, those whose names it finds, as bash's =~ does
END
}

# What runs in the virtual machine. How it goes is read from what it prints.
guest() {
  local build=$1 only=$2
  check() {  # NAME COMMAND...
    local name=$1 begin=$SECONDS
    shift
    if [[ ! $name =~ $only ]]; then
      echo "skipped: $name"
    elif timeout 1800 "$@" >/tmp/said 2>&1; then
      echo "passed after $((SECONDS - begin)) s: $name"
    else
      echo "failed after $((SECONDS - begin)) s, status $?: $name"
      tail -n 40 /tmp/said
    fi
  }
  # rdma_rxe asks for a checksum that it does not load itself.
  for module in crc32_generic rdma_rxe ib_uverbs rdma_ucm dummy; do modprobe "$module"; done
  ip link set lo up
  ip link add roce type dummy
  ip address add 10.0.0.1/24 dev roce
  ip link set roce up
  rdma link add rxe0 type rxe netdev roce
  # Soft-RoCE's completion queues are too short for what ofi_rxm wants for its usual 256 peers. Other providers take
  # seconds to say that they have no device.
  export FI_UNIVERSE_SIZE=32 FI_PROVIDER=verbs,ofi_rxm FI_LOG_LEVEL=warn
  export RINGLET_PROVIDER='verbs;ofi_rxm' RINGLET_INTERFACE=roce
  local perf=("$build/bench/ringlet-perf" --transport fabric --provider "=$RINGLET_PROVIDER" --interface "=$RINGLET_INTERFACE"
    -b 8 -f 64 -n 2 -w 1)
  check "ringlet-perf, 2 ranks" "${perf[@]}" all_reduce --ranks 2 -e 2M
  check "ringlet-perf, 4 ranks, registered memory" "${perf[@]}" all_reduce --ranks 4 -e 2M --memory allocated
  check "ringlet-perf, 3 lanes of small slots" "${perf[@]}" all_reduce --ranks 3 -e 64K --lanes 3 --slots 2 --slot-bytes 1024
  for case in "nothing is copied" "killed" "messages" "large buffers" "with a root" "C01" "C10 C11 C22" "C10 C11 C25" "C12"; do
    check "tests named '$case'" "$build/tests/fabric/named_provider" --test-case="*$case*"
  done
  echo "all has been run"
}
if [ "${1:-}" = --guest ]; then
  guest "$2" "$3"
  exit
fi

build=build cache='' seconds=5400 only=''
while [ $# -gt 0 ]; do
  case $1 in
    --help) usage && exit ;;
    *) [ $# -gt 1 ] || { usage >&2 && exit 2; } ;;&
    --build) build=$2 ;;
    --cache) cache=$2 ;;
    --seconds) seconds=$2 ;;
    --only) only=$2 ;;
    *) usage >&2 && exit 2 ;;
  esac
  shift 2
done

state=$(mktemp -d) machine='' counts="0 passed, 1 failed, 0 skipped"
end() {
  [ -z "$machine" ] || kill "$machine" 2>/dev/null && wait || true
  rm -rf "$state"
  echo "$counts"
}
trap end EXIT
[ -n "$cache" ] || cache=$state
mkdir -p "$cache"
cache=$(realpath "$cache")

bash .ci/install qemu-system-x86 busybox-static cpio kmod iproute2 ibverbs-providers
[ -f "$build/build.ninja" ] || meson setup "$build"
ninja -C "$build" bench/ringlet-perf tests/fabric/named_provider

if [ ! -d "$cache/kernel" ]; then
  image=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: //p')
  (cd "$state" && apt-get -qq download "$image" && dpkg-deb -x "$image"_*.deb kernel)
  depmod -b "$state/kernel" "$(ls "$state/kernel/lib/modules")"
  mv "$state/kernel" "$cache/kernel.new" && mv "$cache/kernel.new" "$cache/kernel"
fi
kernel=$cache/kernel release=$(ls "$cache/kernel/lib/modules")

# What the kernel starts with: a shell, and the modules that it needs to reach the files of this machine. What it writes
# there stays in its memory.
first=$state/first
mkdir -p "$first"/{bin,modules,below,above,root}
cp /bin/busybox "$first/bin"
modprobe -d "$kernel" -S "$release" --show-depends -a virtio_pci 9pnet_virtio 9p overlay |
  awk '$1 == "insmod" && !known[$2]++ {print $2}' >"$state/modules"
xargs -a "$state/modules" cp -t "$first/modules"
printf '#!/bin/busybox sh\n/bin/busybox poweroff -f\n' >"$first/leave"
cat >"$first/init" <<END
#!/bin/busybox sh
/bin/busybox --install -s /bin
for module in $(xargs -a "$state/modules" -n 1 basename | xargs); do insmod /modules/\$module; done
mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose files /below
mount -t tmpfs above /above
mkdir /above/files /above/work
mount -t overlay -o lowerdir=/below,upperdir=/above/files,workdir=/above/work root /root
mount -t devtmpfs dev /root/dev
mkdir -p /root/dev/shm /root/lib/modules
mount -t proc proc /root/proc
mount -t sysfs sys /root/sys
mount -t tmpfs shm /root/dev/shm
mount -t tmpfs run /root/run
ln -s $(printf %q "$kernel/lib/modules/$release") /root/lib/modules/
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
chroot /root /bin/bash $(printf %q "$PWD")/tests/fabric/soft_roce.sh --guest $(printf '%q %q' "$build" "$only")
/bin/busybox poweroff -f
END
chmod +x "$first/init" "$first/leave"
(cd "$first" && find . | cpio --quiet -o -H newc | gzip) >"$state/first.gz"

# SECONDS ACCELERATOR PROGRAM
boot() {
  exec timeout "$1" qemu-system-x86_64 -accel "$2" -cpu max -smp "$(nproc)" -m 4096 -no-reboot -nodefaults -display none \
    -serial stdio -kernel "$kernel/boot/vmlinuz-$release" -initrd "$state/first.gz" \
    -append "console=ttyS0 loglevel=1 panic=-1 rdinit=$3" \
    -virtfs local,path=/,mount_tag=files,security_model=none,readonly=on,multidevs=remap </dev/null
}
accelerator=kvm
{ (ulimit -c 0 && boot 15 kvm /leave) || accelerator=tcg,thread=multi; } >/dev/null 2>&1
echo "Booting Linux $release with $accelerator"
boot "$seconds" "$accelerator" /init >"$state/console" 2>&1 &
machine=$!
tail -n +1 -f --pid="$machine" "$state/console" | sed -u 's/\r$//'

number() { tr -d '\r' <"$state/console" | grep -cE "^$1" || true; }
failed=$(number 'failed after') passed=$(number 'passed after')
[ "$(number 'all has been run')" = 1 ] || ((++failed))
counts="$passed passed, $failed failed, $(number skipped:) skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
