#!/bin/bash
# What pip gives machines of arm64, run under qemu-user in a root of Debian's packages:
#   packages.sh onnxruntime   the engine of that name, held to a recording of the Python program on
#                             arm64 and to the vectors of its arithmetic
#   packages.sh wheel FOLDER  the wheel in the folder: its results have the hash of those of this
#                             machine's wheel, which is there, too
# Where this cannot be it prints `not run: ` and why. A cross compiler is in build/wheels/venv.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD/build/arm64/root
skip() { echo "not run: $*"; exit 0; }
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || skip 'no qemu-user is here'
why=$(scripts/arm64/root.sh) || skip "$why"
arm=("$qemu" -cpu neoverse-n1 -L "$root")

onnxruntime() {
  local zig="$PWD/build/wheels/venv/bin/python -m ziglang" package
  export ONNXRUNTIME_LIB LOCKSTEP_REQUIRE_ONNXRUNTIME=1 LOCKSTEP_ONLY=g00002/pid
  ONNXRUNTIME_LIB=$(echo "$root"/site/onnxruntime/capi/libonnxruntime.so.*)
  for package in batched/onnxruntime parity; do
    CGO_ENABLED=1 GOOS=linux GOARCH=arm64 CC="$zig cc -target aarch64-linux-gnu.2.28" \
      ${GO:-go} test -c -o "build/arm64/${package##*/}.test" "./$package"
  done
  (cd batched/onnxruntime && "${arm[@]}" ../../build/arm64/onnxruntime.test -test.v -test.run '^(TestVectors|TestProbe)$')
  (cd parity && "${arm[@]}" ../build/arm64/parity.test -test.timeout 2h -test.v \
    -test.run '^TestTrajectory$/^default$/^ort1.30arm-neon-expC-sinfma-csvexact$/^onnxruntime$') | tee build/arm64/onnxruntime.log
  grep -q 'recordings compared: .*onnxruntime 1,' build/arm64/onnxruntime.log || { echo 'no recording was compared'; exit 1; }
}

wheel() {
  local machine here there
  for machine in aarch64 "$(uname -m)"; do
    rm -rf "build/arm64/wheel-$machine" && mkdir -p "build/arm64/wheel-$machine"
    unzip -q "$1"/lockstep-*-"manylinux_2_28_$machine.whl" -d "build/arm64/wheel-$machine"
  done
  rm -rf build/arm64/routes && mkdir build/arm64/routes
  head -n 131 internal/defaults/routes/g00002.csv > build/arm64/routes/short.csv # an emulator takes long
  there=$("${arm[@]}" -E PYTHONPATH="$PWD/build/arm64/wheel-aarch64:$root/site" "$root/usr/bin/python3.11" \
    scripts/arm64/hash.py build/arm64/routes)
  here=$(PYTHONPATH=$PWD/build/arm64/wheel-$(uname -m) ${LOCKSTEP_PYTHON:-python3} scripts/arm64/hash.py build/arm64/routes)
  printf '%s\n' "$there" "$here"
  [ "${there#* }" = "${here#* }" ] && [ "${there%% *}" = aarch64 ] || { echo 'the results differ'; exit 1; }
}
"$@"
