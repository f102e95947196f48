#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# consume.sh meson|pkg-config|cmake|subproject ROOT: builds the program in user/ against ringlet in that way, and runs it.
set -euo pipefail
way=$1 root=$2
for tool in meson "${way/subproject/meson}"; do
  command -v "$tool" >/dev/null || { echo "skipped: $tool is missing"; exit 77; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$root/tests/consume/user" "$work"
cd "$work/user"

if [ "$way" = subproject ]; then
  # Only what a user needs of it: the build file and the headers.
  mkdir -p subprojects/ringlet
  cp -r "$root"/{meson.build,include} subprojects/ringlet
else
  meson setup "$work/ringlet" "$root" --prefix "$work/prefix" >"$work/log" || { cat "$work/log"; exit 1; }
  meson install -C "$work/ringlet" --no-rebuild --quiet
  export PKG_CONFIG_PATH=$work/prefix/share/pkgconfig CMAKE_PREFIX_PATH=$work/prefix
fi

case $way in
  meson | subproject)
    meson setup build
    meson compile -C build
    ;;
  pkg-config)
    mkdir build
    $CXX -std=c++20 main.cpp -o build/user $(pkg-config --cflags --libs ringlet)
    ;;
  cmake)
    cmake -G Ninja -B build
    cmake --build build
    ;;
esac
build/user
