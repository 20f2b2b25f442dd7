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
$go test -c -tags cuda -ldflags="$strip" -o "$out/cuda.test" ./gpu/driver/cuda
$go build -tags cuda -ldflags="$strip" -o "$out/record" ./gpu/hardware/record
cp -R golden/testdata/default/. "$out/goldens/"
cp gpu/hardware/peer.py "$out/"
cp gpu/module/rollout.ptx.gz gpu/module/rollout.sm_90.cubin.gz "$out/"
gzip -9n "$out/gpu.test" "$out/cuda.test" "$out/record" # what travels is small; the first verb unpacks
cp gpu/module/manifest.json gpu/module/report.txt "$out/"
cat > "$out/run" <<'RUN'
#!/bin/sh
# run first OUT does all in one command of ten minutes; run tests OUT | run challenge OUT | run sanitize TOOL OUT |
# run ptx OUT | run bench OUT | run profile OUT do its parts: see record.
# OUT gets <GPU>.json, to which each verb adds: put an earlier one there first. LOCKSTEP_DEADLINE
# is 9m if not set; LOCKSTEP_REHEARSE=1 runs without a GPU, too, for no evidence.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
for out in "$@"; do :; done
mkdir -p "$out"
for packed in "$here"/*.gz; do
  file=${packed%.gz}
  if [ ! -f "$file" ]; then
    gzip -dc "$packed" > "$file.part" && mv "$file.part" "$file"
    case $file in *.test | */record) chmod +x "$file" ;; esac
  fi
done
exec "$here/record" -deadline "${LOCKSTEP_DEADLINE:-9m}" -rehearse="${LOCKSTEP_REHEARSE:-0}" "$@"
RUN
chmod +x "$out/run"
size=$(du -sk "$out" | cut -f1)
echo "$out: $((size / 1024)) MB"
if [ "$size" -gt $((limit * 1024)) ]; then
  echo "$out: more than $limit MB do not travel everywhere: leave something out" >&2
  exit 1
fi
