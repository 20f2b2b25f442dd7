#!/bin/sh
# Makes a folder that holds all that the tests and the benchmark on a GPU need:
# bundle.sh FOLDER CUDA, with the environment that `make gpu-bundle` gives it. CUDA
# is the folder of a toolkit, from which compute-sanitizer comes along.
set -eu
out=$1 cuda=$2
go=${GO:-go}
rm -rf "$out"
mkdir -p "$out/goldens"
$go test -c -tags cuda -o "$out/gpu.test" ./gpu
$go test -c -tags cuda -o "$out/cuda.test" ./gpu/driver/cuda
$go build -tags cuda -o "$out/record" ./gpu/hardware/record
cp -R golden/testdata/default/. "$out/goldens/"
cp gpu/module/rollout.ptx.gz gpu/module/rollout.sm_90.cubin.gz gpu/module/manifest.json gpu/module/report.txt "$out/"
# Where a toolkit lacks it, the record says that nothing was checked.
for bin in "$cuda/bin" "$cuda/compute-sanitizer"; do
  if [ -x "$bin/compute-sanitizer" ] && [ -e "$bin/libsanitizer-collection.so" ]; then
    mkdir -p "$out/sanitizer"
    cp "$bin"/compute-sanitizer "$bin"/*.so "$out/sanitizer/"
    for library in "$cuda"/lib/lib*Tree*.so "$cuda"/lib/lib*Interceptor*.so "$cuda"/lib/libsanitizer-*.so; do
      if [ -e "$library" ]; then cp "$library" "$out/sanitizer/"; fi
    done
    break
  fi
done
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
