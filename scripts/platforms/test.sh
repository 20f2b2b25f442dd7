#!/bin/bash
# Builds, vets and links the program for the platforms that are named, as linux/arm64, without cgo,
# and runs what needs no Unix of the Windows one under Wine, which comes from Debian's packages:
# the story of files, and rollouts, whose output must be this machine's. Where Wine cannot be had
# in four minutes it prints `not run: ` and why.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$PWD/build/platforms
go=${GO:-go}

for_platform() {
  echo "== $1"
  local suffix=
  export CGO_ENABLED=0 GOOS=${1%/*} GOARCH=${1#*/}
  [ "$GOOS" != windows ] || suffix=.exe
  mkdir -p "$out/${GOOS}_$GOARCH"
  $go vet -trimpath ./...
  $go build -trimpath -o "$out/${GOOS}_$GOARCH/lockstep$suffix" ./cmd/lockstep
}
for platform in "$@"; do (for_platform "$platform"); done
[ -e "$out/windows_amd64/lockstep.exe" ] && [ -e "$out/linux_amd64/lockstep" ] || exit 0

wine=$(command -v wine64 || ls /usr/lib/wine/wine64 2> /dev/null) || {
  [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null && {
    timeout 240 apt-get update -q
    DEBIAN_FRONTEND=noninteractive timeout 240 apt-get install -y -q --no-install-recommends wine64
  } > "$out/apt.log" 2>&1 < /dev/null
  wine=$(command -v wine64 || ls /usr/lib/wine/wine64 2> /dev/null) || {
    echo 'not run: no Wine is here, for what Windows does; as root: apt-get install wine64'
    exit 0
  }
}
# Wine can name a file with an ä only where the locale has that letter.
export WINEPREFIX=$out/wine WINEDEBUG=-all WINEARCH=win64 LC_ALL=C.UTF-8
if [ ! -f "$WINEPREFIX/ready" ]; then
  rm -rf "$WINEPREFIX"
  timeout 240 "$wine" wineboot -i > "$out/wineboot.log" 2>&1
  python3 scripts/platforms/prng.py "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll"
  touch "$WINEPREFIX/ready"
fi
CGO_ENABLED=0 GOOS=windows GOARCH=amd64 $go test -c -o "$out/windows_amd64/fileio.exe" ./internal/fileio
(cd internal/fileio && timeout 240 "$wine" "$out/windows_amd64/fileio.exe" -test.v -test.run '^TestStory$') | tee "$out/story.log"
grep -q -- '--- PASS: TestStory ' "$out/story.log"

# One profile, so that no Python is asked; the seconds that a run took are its own.
rolled() {
  (cd internal/defaults/routes && "$@" rollout --engine batched --workers 1 --own --num_segs 1 --controller pid \
    --profile ort1.30-avx2-expU-sinfma-csvexact --json) | tr -d '\r' | sed 's/"[a-z_]*seconds[a-z_]*":[^,}]*//'
}
rolled "$out/linux_amd64/lockstep" > "$out/linux.json"
rolled timeout 240 "$wine" "$out/windows_amd64/lockstep.exe" > "$out/windows.json"
cmp "$out/linux.json" "$out/windows.json"
[ -s "$out/windows.json" ] && cat "$out/windows.json"
