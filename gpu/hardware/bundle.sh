#!/bin/sh
# Makes a folder that holds all that the tests and the benchmark on a GPU need:
# bundle.sh FOLDER, with the environment that `make gpu-bundle` gives it.
set -eu
out=$1
go=${GO:-go}
rm -rf "$out"
mkdir -p "$out/goldens"
$go test -c -tags cuda -o "$out/gpu.test" ./gpu
$go test -c -tags cuda -o "$out/cuda.test" ./gpu/driver/cuda
$go build -tags cuda -o "$out/record" ./gpu/hardware/record
cp -R golden/testdata/default/. "$out/goldens/"
cp gpu/module/rollout.ptx.gz gpu/module/rollout.sm_90.cubin.gz gpu/module/manifest.json gpu/module/report.txt "$out/"
cat > "$out/run" <<'RUN'
#!/bin/sh
# run test OUT: the tests; run bench OUT: the times. OUT gets <GPU>.json.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$2"
exec "$here/record" "$1" "$(cd "$2" && pwd)"
RUN
chmod +x "$out/run"
du -sh "$out"
