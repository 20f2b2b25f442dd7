#!/bin/bash
# Runs tests as programs for arm64: on this machine if it is one, else under qemu-user, which
# comes from Debian's packages: every kernel against its Go loop, the network and classic
# control's functions, recordings. `test.sh short` is what a change runs. Where neither is
# possible it prints `not run: ` and why; what it prints else is what go test does.
set -euo pipefail
cd "$(dirname "$0")/../.."
log=build/arm64/apt.log

# emulator prints the command that runs programs for arm64, nothing where none is needed.
emulator() {
  [ "$(uname -m)" != aarch64 ] || return 0
  local name
  for name in qemu-aarch64-static qemu-aarch64; do
    if command -v $name > /dev/null; then echo "$name -cpu neoverse-n1"; return; fi
  done
  return 1
}

install() {
  [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null || return 1
  mkdir -p "$(dirname $log)"
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends qemu-user-static; } \
    > $log 2>&1 < /dev/null
}

if ! exec=$(emulator); then
  install || true
  if ! exec=$(emulator); then
    echo 'not run: neither an arm64 machine nor qemu-user is here; as root: apt-get install qemu-user-static'
    exit 0
  fi
fi

# An emulator takes some fifty times as long, so a few cases of each property are drawn.
run() {
  local checks=$1
  shift
  CGO_ENABLED=0 GOARCH=arm64 GOOS=linux ${GO:-go} test -count 1 -timeout 3h ${exec:+-exec "$exec"} "$@" -args \
    $([ "$checks" = 0 ] || echo "-rapid.nofailfile -rapid.checks $checks")
}
if [ "${1:-}" = short ]; then
  run 40 -short ./internal/f32 -skip 'TestMatMulShapes|TestFMA'
  run 0 ./batched -run '^TestVectors$'
  # Classic control's functions, steps and recordings of Gymnasium, in NEON alone.
  run 0 ./batched/classic -run '^(TestLayout|TestFunctions|TestSteps|TestGuards)$'
  run 0 ./batched/classic -run '^TestGymnasium$/^neon$'
  LOCKSTEP_ONLY=g00002/pid run 0 ./parity \
    -run '^TestTrajectory$/^default$/^ort1.30(-avx2-expU-sinfma-csv2|arm-neon-expC-sinfma-csvexact)$/^batched$'
else
  run 100 ./internal/f32
  run 0 ./internal/libm ./internal/pandas ./batched/classic ./reference/classic
  run 0 ./batched -run '^(TestVectors|TestPlain)$'
  run 5 ./reference -run '^(TestVectors|TestSoftmaxPython|TestKernels)$'
  run 0 ./parity -run '^TestTrajectory$/.*/.*/^(reference|batched)$'
fi
