#!/bin/bash
# Makes build/arm64/root: a Python 3.11 for arm64 of Debian's packages, with NumPy and ONNX Runtime,
# which qemu-user runs. Nothing is installed, and no root's rights are needed. Where it cannot be
# made it prints why and ends with 1.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD/build/arm64/root
[ ! -f "$root/ready" ] || exit 0
fail() { echo "$*"; exit 1; }
for tool in apt-get dpkg unzip; do
  command -v $tool > /dev/null || fail "no $tool is here, which gets what a machine of arm64 has"
done
log=$PWD/build/arm64/root.log
mkdir -p build/arm64
work=$(mktemp -d "$PWD/build/arm64/packages-XXXXXX")
trap 'rm -rf "$work"' EXIT
rm -rf "$root"
mkdir -p "$work"/{lists/partial,cache/archives/partial,wheels} "$root"/{proc,site,sys/devices/system/cpu}
: > "$work/status" # as if nothing were installed, so that all comes that is wanted
apt=(apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Debug::NoLocking=1 -o APT::Sandbox::User=
  -o Dir::State="$work" -o Dir::State::lists="$work/lists" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache")
{ "${apt[@]}" update && "${apt[@]}" -y install --download-only --no-install-recommends python3.11 libstdc++6 libgomp1; } \
  > "$log" 2>&1 < /dev/null || fail "apt-get has no Python 3.11 for arm64: $(tail -n 1 "$log")"
for package in "$work"/cache/archives/*.deb; do dpkg -x "$package" "$root"; done
version() { sed -n "s/^$1==//p" golden/requirements.txt; }
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.11 \
  --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64 \
  --dest "$work/wheels" "numpy==$(version numpy)" "onnxruntime==$(version onnxruntime)" > "$log" 2>&1 ||
  fail "pip has no packages for arm64: $(tail -n 1 "$log")"
for wheel in "$work"/wheels/*.whl; do unzip -q -o "$wheel" -d "$root/site"; done
# ONNX Runtime ends at import where the machine's files tell of another CPU, or of none.
for core in 0 1; do
  printf '%s\n' "processor : $core" 'Features : fp asimd aes crc32 atomics fphp asimdhp asimddp' \
    'CPU implementer : 0x41' 'CPU architecture: 8' 'CPU variant : 0x3' 'CPU part : 0xd0c' 'CPU revision : 1' ''
done > "$root/proc/cpuinfo"
for file in present possible online; do echo 0-1 > "$root/sys/devices/system/cpu/$file"; done
touch "$root/ready"
