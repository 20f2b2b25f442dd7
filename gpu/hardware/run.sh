#!/bin/sh
# run OUT [STEP...] runs the tests and the benchmarks of this folder on the GPU: those that are
# named, or all that have not passed yet, what is most wanted first. OUT/<GPU>/STEP.json gets what
# each says, as events of `go test -json`; begun again with other kernels or another driver, it is
# emptied. LOCKSTEP_DEADLINE is how many seconds all of it may take, 540 if not set. With
# LOCKSTEP_REHEARSE=1 it also runs on the stand-in of a GPU, which is no evidence. The steps:
# cuda gpu chosen profile racecheck memcheck initcheck synccheck ptx bench peer
set -eu
usage() { sed -n '2,/^set/s/^# //p' "$0" >&2 && exit 2; }
[ $# -gt 0 ] || usage
begin=$(date +%s) deadline=${LOCKSTEP_DEADLINE:-540} failed=0 child=
case $deadline in
*[!0-9]*) echo "LOCKSTEP_DEADLINE=$deadline: want a number of seconds" >&2 && exit 2 ;;
esac
to=$1 && shift
steps=$*
for step in $steps; do grep "^# cuda " "$0" | grep -qw -- "$step" || usage; done
mkdir -p "$to"
out=$(cd "$to" && pwd)
cd "$(dirname "$0")"
for packed in *.gz; do
  file=${packed%.gz}
  if [ ! -f "$file" ]; then gzip -dc "$packed" > "$file.part" && mv "$file.part" "$file"; fi
done
chmod +x ./*.test test2json
export LOCKSTEP_REQUIRE_GPU=1 LOCKSTEP_GOLDENS="$PWD/goldens" PATH="$PATH:/usr/local/cuda/bin"

# Which device, which kernels.
if ! says=$(timeout -s KILL "$deadline" ./gpu.test -test.run='^TestDevice$' -test.v); then echo "$says" >&2 && exit 1; fi
identity=$(echo "$says" | sed -n 's/^=== ATTR  TestDevice //p')
device=$(echo "$identity" | sed -n 's/^device //p')
echo "$identity"
if [ "$device" = stand-in ] && [ "${LOCKSTEP_REHEARSE:-0}" != 1 ]; then
  echo "device $device is not a GPU: this is no evidence of hardware; nothing is written" >&2
  exit 1
fi
folder=$out/$(echo "$device" | tr -cs 'A-Za-z0-9.\n' -)
mkdir -p "$folder"
if [ "$(cat "$folder/device.txt" 2>/dev/null)" != "$identity" ]; then
  rm -f "$folder"/*
  echo "$identity" > "$folder/device.txt"
fi
pipe=$(mktemp -d)/pipe
mkfifo "$pipe"
trap 'rm -r "${pipe%/pipe}"' EXIT
trap 'kill $child; exit 1' INT TERM # timeout hands it on to all that it has begun

# wanted STEP TOOL: whether the step is to run, and the machine has its tool.
wanted() {
  case " $steps " in
  "  ") if passed "$1"; then echo "== $1: has passed before" && return 1; fi ;;
  *" $1 "*) ;;
  *) return 1 ;;
  esac
  command -v "$2" > /dev/null || { echo "== $1: not run, there is no $2" && return 1; }
}

# passed STEP: a test or a benchmark began, and the program ended well; or there is ncu's report.
passed() {
  if [ "$1" = profile ]; then [ -f "$folder/profile.ncu-rep" ] && return; fi
  grep -qs '"Test":' "$folder/$1.json" &&
    tail -n 1 "$folder/$1.json" | grep -q '"Action":"pass",[^{]*"Elapsed"'
}

# limit SHARE: the seconds of so many hundredths of the deadline, or of what is left of it. A step
# that is named has all that is left.
limit() {
  left=$((begin + deadline - $(date +%s))) part=$((deadline * $1 / 100))
  if [ -n "$steps" ] || [ $part -gt $left ]; then part=$left; fi
  echo $((part > 0 ? part : 1))
}

# step STEP SHARE TOOL ARGUMENT... keeps the events, and shows the text in them.
step() {
  name=$1 seconds=$(limit "$2") && shift 2
  wanted "$name" "$1" || return 0
  echo "== $name, $seconds s at most: $*"
  timeout -s KILL "$seconds" ./test2json -t -p "$name" "$@" > "$pipe" & child=$!
  tee "$folder/$name.json" < "$pipe" | sed -un 's/\\n"}$//; s/\\t/\t/g; s/.*"Output":"//p'
  wait $child || true
  if passed "$name"; then
    echo "== $name: pass, $(($(date +%s) - begin)) s after the beginning"
  elif grep -q '"Action":"fail"' "$folder/$name.json"; then
    failed=1
    echo "== $name: fail"
  else
    echo "== $name: not run to its end, its share of the deadline ended it"
  fi
}

sanitize() {
  # It is not told to report API errors: the driver asks a stream whether it has done its work,
  # and "not ready" is an answer.
  step "$1" 11 compute-sanitizer --tool "$1" --report-api-errors no --error-exitcode 9 \
    ./gpu.test -test.run='^TestShort$' -test.v=test2json
}

tests=-test.v=test2json
benchmark="-test.run=^\$ -test.benchtime=1x"
step cuda 3 ./cuda.test $tests
step gpu 25 ./gpu.test $tests
step chosen 6 ./gpu.test $tests $benchmark -test.count=3 \
  '-test.bench=^BenchmarkRollouts$/^pid$/chosen'
if wanted profile ncu; then # no proof, so without events
  seconds=$(limit 12) report=$folder/profile
  echo "== profile, $seconds s at most"
  rm -f "$report".*
  timeout -s KILL "$seconds" ncu --set full --clock-control none --launch-count 1 --kill yes -f \
    -o "$report" ./gpu.test $benchmark \
    '-test.bench=^BenchmarkRollouts$/^pid$/6_by_256/792' & child=$!
  wait $child || true # killed as it was told, it ends with an error; the report tells
  if passed profile; then
    ncu --import "$report.ncu-rep" --page details | gzip > "$report.details.txt.gz"
    ncu --import "$report.ncu-rep" --page source --csv | gzip > "$report.source.csv.gz"
  else
    echo "== profile: not run, ncu wrote no report"
  fi
fi
for tool in racecheck memcheck initcheck synccheck; do sanitize $tool; done
step ptx 10 env LOCKSTEP_KERNELS=ptx ./gpu.test $tests '-test.run=^TestShort$/blocks_of_6$'
step bench 100 ./gpu.test $tests $benchmark -test.count=3 '-test.bench=^BenchmarkRollouts$'
step peer 100 ./gpu.test $tests $benchmark '-test.bench=^BenchmarkPeer$'
exit $failed
