#!/bin/bash
# Holds the AVX-512 kernels to the specification in Go, and the network and the
# softmax on them to the plain loops and to Python's answers: on this CPU if it
# has AVX-512, else on an emulated one (emulate.sh). Prints one line, or what failed.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=build/avx512
dir=$out/tests
log=$out/test.log

rm -rf "$dir"
mkdir -p "$dir/golden/testdata"
CGO_ENABLED=0 GOARCH=amd64 GOOS=linux ${GO:-go} test -ldflags=-s -c -o "$dir/f32.test" ./internal/f32
CGO_ENABLED=0 GOARCH=amd64 GOOS=linux ${GO:-go} test -ldflags=-s -c -o "$dir/reference.test" ./reference
touch "$dir/go.mod" # the tests look for files below a folder that has one
cp golden/testdata/units.npz "$dir/golden/testdata/"

# The network needs the model.
model=
folders=(assets "${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/assets")
[ -z "${LOCKSTEP_ASSETS:-}" ] || folders=("$LOCKSTEP_ASSETS")
for assets in "${folders[@]}"; do
  if [ -z "$model" ] && [ -f "$assets/tinyphysics.onnx" ]; then model=$assets/tinyphysics.onnx; fi
done
network=
if [ -n "$model" ]; then
  mkdir "$dir/assets"
  cp "$model" "$dir/assets/"
  network='|TestKernels$'
elif [ "${LOCKSTEP_REQUIRE_ASSETS:-}" = 1 ]; then
  echo 'test-avx512: LOCKSTEP_REQUIRE_ASSETS=1, but there is no model' >&2
  exit 1
fi

skip=TestFMA
avx2='/avx2|//avx2' # subtests; in a list for -test.skip they must come last
if [ "${AVX512_EMULATE:-}" != 1 ] && grep -qsw avx512f /proc/cpuinfo; then
  on='this CPU' short= products=5000 checks=200 networks=20
  run() { (unset LOCKSTEP_ASSETS; cd "$dir" && sh run); }
else
  # With -test.short a fifth of the checks runs. The sweep over all shapes of
  # products would take minutes: more products of random shapes stand in for it.
  on='an emulated CPU' short=-test.short products=2500 checks=100 networks=5
  skip="$skip|TestMatMulShapes"
  run() { scripts/avx512/emulate.sh "$dir"; }
fi
cat > "$dir/run" <<R
./f32.test -test.v $short -rapid.nofailfile -rapid.checks $products -test.run 'TestAVX512|TestMatMul\$' -test.skip '$avx2' || exit
./f32.test -test.v $short -rapid.nofailfile -rapid.checks $checks -test.skip '$skip|TestAVX512|TestMatMul\$|$avx2' || exit
./reference.test -test.v $short -rapid.nofailfile -rapid.checks $networks -test.run 'TestSoftmaxPython\$$network'
R

SECONDS=0
status=0
run > "$log" 2>&1 || status=$?
say() { echo "test-avx512: $*"; }
passed() { grep -ac "^ *--- PASS: $1" "$log" || true; }
case $status in
  0) ;;
  125)
    say "could not run: $(tail -n 1 "$log")" >&2
    exit 1 ;;
  *)
    grep -av -e '^ *=== ' -e '^ *--- PASS' -e '^PASS' -e '\[rapid\] OK' "$log" >&2 || true
    say "FAILED on $on after $SECONDS s, see $log" >&2
    exit 1 ;;
esac
if [ "$(passed 'TestAVX512 ')" != 1 ] || [ "$(passed 'TestSoftmaxPython ')" != 1 ]; then
  say "FAILED: $on runs no AVX-512 kernels, see $log" >&2
  exit 1
fi
[ -n "$model" ] && network=with || network='for want of the model without'
say "$(passed '') tests passed on $on in $SECONDS s, $network the network"
