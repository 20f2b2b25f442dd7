#!/bin/sh
# Makes a folder that holds all that the tests and the benchmarks on a GPU need:
# bundle.sh FOLDER, with the environment that `make gpu-bundle` gives it. What belongs
# to a toolkit, compute-sanitizer and ncu, is the machine's.
set -eu
out=$1
limit=30 # MB
go=${GO:-go}
rm -rf "$out"
mkdir -p "$out/goldens"
# Without symbols for debuggers; Go's own tracebacks stay.
strip='-s -w'
$go test -c -tags cuda -ldflags="$strip" -o "$out/gpu.test" ./gpu
$go test -c -tags cuda -ldflags="$strip" -o "$out/cuda.test" ./gpu/internal/driver/cuda
CGO_ENABLED=0 $go build -ldflags="$strip" -o "$out/test2json" cmd/test2json
cp -R golden/testdata/default/. "$out/goldens/"
cp gpu/hardware/peer.py "$out/"
cp gpu/internal/module/rollout.ptx.gz gpu/internal/module/rollout.sm_90.cubin.gz "$out/"
gzip -9n "$out/gpu.test" "$out/cuda.test" "$out/test2json" # what travels is small; run unpacks
cp gpu/internal/module/manifest.json gpu/internal/module/report.txt "$out/"
cp gpu/hardware/run.sh "$out/run"
chmod +x "$out/run"
size=$(du -sk "$out" | cut -f1)
echo "$out: $((size / 1024)) MB"
if [ "$size" -gt $((limit * 1024)) ]; then
  echo "$out: more than $limit MB do not travel everywhere: leave something out" >&2
  exit 1
fi
