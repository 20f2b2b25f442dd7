#!/bin/bash
# Runs tests as programs for arm64: on this machine if it is one, else under qemu-user, which
# comes from Debian's packages: every kernel against its Go loop, the network and classic
# control's functions, recordings. `test.sh short` is what a change runs, `test.sh recordings` the
# last part alone: each set of golden/testdata, or those that are named, on each engine, the small
# sets first, with the seconds that each took. Where neither machine nor emulator is to be had it
# prints `not run: ` and why; what it prints else is what go test does. Apple's machines have bash
# 3.2, and BSD's tools.
set -euo pipefail
cd "$(dirname "$0")/../.."
log=build/arm64/apt.log
os=linux
[ "$(uname -s)" != Darwin ] || os=darwin

# emulator prints the command that runs programs for arm64, nothing where none is needed.
emulator() {
  case $os/$(uname -m) in linux/aarch64 | darwin/arm64) return 0 ;; darwin/*) return 1 ;; esac
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
  CGO_ENABLED=0 GOARCH=arm64 GOOS=$os ${GO:-go} test -count 1 -timeout 3h ${exec:+-exec "$exec"} "$@" -args \
    $([ "$checks" = 0 ] || echo "-rapid.nofailfile -rapid.checks $checks")
}

# held holds an engine to the recordings of a set, those that LOCKSTEP_ONLY leaves.
held() {
  local set=$1 engine=$2 count status=0 start=$SECONDS
  local log=$PWD/build/arm64/recordings/${set//\//.}.$engine.log
  (cd parity && $exec ../build/arm64/parity.test -test.v -test.timeout 3h \
    -test.run "^TestTrajectory\$/^${set//\//\$/^}\$/^$engine\$") > "$log" 2>&1 || status=1
  count=$(sed -n "s/.*recordings compared:.* $engine \([0-9]*\).*/\1/p" "$log")
  [ $status = 0 ] || cat "$log"
  echo "$set on $engine: ${count:-0} recordings compared in $((SECONDS - start)) s"
  if [ "${count:-0}" = 0 ]; then grep 'not run for want of' "$log" || status=1; fi
  [ $status = 0 ] || echo "FAIL $set on $engine"
  return $status
}

# recordings holds both engines, at once, to sets of recordings, each set after the other.
recordings() {
  local set reference batched status=0 sets=$*
  [ -n "$sets" ] || sets=$(cd golden/testdata && find . -mindepth 2 -name '*.npz' | # small ones first
    sed 's|^\./||; s|/[^/]*$||' | sort | uniq -c | sort -n | awk '{ print $2 }')
  mkdir -p build/arm64/recordings
  CGO_ENABLED=0 GOARCH=arm64 GOOS=$os ${GO:-go} test -c -o build/arm64/parity.test ./parity
  for set in $sets; do
    [ -f "golden/testdata/$set/provenance.json" ] ||
      { echo "golden/testdata has no set $set" >&2; exit 2; }
    held "$set" reference & reference=$!
    held "$set" batched & batched=$!
    wait $reference || status=1
    wait $batched || status=1
  done
  return $status
}

if [ "${1:-}" = recordings ]; then
  recordings "${@:2}"
elif [ "${1:-}" = short ]; then
  run 40 -short ./internal/f32 -skip 'TestMatMulShapes|TestFMA'
  run 0 ./batched -run '^TestVectors$'
  # Classic control's functions, steps and recordings of Gymnasium, in NEON alone.
  run 0 ./batched/classic -run '^(TestLayout|TestFunctions|TestSteps|TestGuards)$'
  run 0 ./batched/classic -run '^TestGymnasium$/^neon$'
  # Short rollouts through clips and bins, in ARM's own profile and in one of x86's.
  recordings hard/ort1.30arm-neon-expC-sinfma-csvexact hard/ort1.30-avx2-expU-sinfma-csv2
else
  run 100 ./internal/f32
  run 0 ./internal/libm ./internal/pandas ./batched/classic ./reference/classic
  run 0 ./batched -run '^(TestVectors|TestPlain)$'
  run 5 ./reference -run '^(TestVectors|TestSoftmaxPython|TestKernels)$'
  recordings
fi
