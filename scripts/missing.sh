#!/usr/bin/env bash
# Runs a few commands and tests with one thing of the machine missing at a time. Each must
# end well, and name what was not run. A row of the table is a variant: its name, the
# packages whose tests run, which of them, what must be named as missing ('-' for nothing).
#
#   scripts/missing.sh [VARIANT...]
set -euo pipefail
cd "$(dirname "$0")/.."
unset "${!LOCKSTEP_@}"

variants="
no-compiler   ./internal/want,./gpu/internal/driver/emulated                 Find|Launch                compiler,onnxruntime
no-python     ./internal/policies,./internal/pycontroller                    Vectors|Close              python
no-numpy      ./internal/policies,./internal/pycontroller                    Vectors|Close              python
no-network    ./internal/want,./cmd/internal/gate/internal/testlog                 .                          -
read-only     ./internal/want,./gpu/internal/driver/emulated,./reference     Find|Launch|Vectors        onnxruntime
odd-path      ./internal/want,./gpu/internal/driver/emulated,./cmd/internal/gate/internal/testlog Find|Launch|Skip|Read|Named|Again|Origin|Capture -
"

for name in "$@"; do
  if ! awk -v name="$name" '$1 == name { found = 1 } END { exit !found }' <<<"$variants"; then
    echo "missing.sh: $name is no variant: want one of$(awk 'NF { printf " " $1 }' <<<"$variants")" >&2
    exit 2
  fi
done

work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-missing-XXXXXX")
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
GOCACHE=$(go env GOCACHE) GOMODCACHE=$(go env GOMODCACHE)
export GOCACHE GOMODCACHE # which some variants would not find

# without PATTERN: a folder with all programs but those of these names.
without() {
  local folder=$work/bin-$RANDOM file
  mkdir "$folder" || return 1
  (
    IFS=:
    for in in $PATH; do
      for file in "$in"/*; do
        [[ ${file##*/} =~ ^($1)$ ]] || [ -e "$folder/${file##*/}" ] || [ ! -x "$file" ] || ln -s "$file" "$folder/" || exit 1
      done
    done
  ) || return 1
  echo "$folder"
}

# A folder in which nobody can make a file, root included.
unwritable() {
  mkdir "$work/home" || return 1
  chmod a-w "$work/home" || return 1
  if [ -w "$work/home" ]; then echo /proc; else echo "$work/home"; fi
}

# prepare VARIANT sets the environment and the folder; it runs in a subshell, where a command
# that fails ends nothing by itself.
prepare() {
  local dead=http://127.0.0.1:9 # nothing listens there
  venv=
  case $1 in
    no-compiler) PATH=$(without '(.*-)?(gcc|g[+][+]|cc|c[+][+]|clang|clang[+][+])(-[0-9.]+)?') || return 1; CGO_ENABLED=0 ;;
    no-python) PATH=$(without '(python|pypy|pip).*') || return 1; venv=VENV=$work/none ;;
    no-numpy) python3 -m venv --without-pip "$work/bare" || return 1; LOCKSTEP_PYTHON=$work/bare/bin/python ;;
    no-network)
      export http_proxy=$dead https_proxy=$dead HTTP_PROXY=$dead HTTPS_PROXY=$dead ALL_PROXY=$dead PIP_NO_INDEX=1 || return 1
      unset no_proxy NO_PROXY || return 1
      GOPROXY=off ;;
    read-only) HOME=$(unwritable) || return 1; TMPDIR=$work ;;
    odd-path) git clone --quiet . "$work/a path, it's" || return 1; cd "$work/a path, it's" || return 1 ;;
    *) echo "nothing is taken away for $1"; return 1 ;;
  esac
  export PATH HOME TMPDIR CGO_ENABLED GOPROXY LOCKSTEP_PYTHON
  if [ -z "${TMPDIR:-}" ]; then unset TMPDIR; fi
  if [ -z "${CGO_ENABLED:-}" ]; then unset CGO_ENABLED; fi
  if [ -z "${GOPROXY:-}" ]; then unset GOPROXY; fi
  if [ -z "${LOCKSTEP_PYTHON:-}" ]; then unset LOCKSTEP_PYTHON; fi
}

failed=0 ran=0
while read -r name packages tests lacking; do
  if [ -z "$name" ] || { [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; }; then continue; fi
  ran=$((ran + 1)) log=$work/$name.log
  echo "== $name"
  if (
    prepare "$name" &&
      make --no-print-directory run BIN=build/missing/lockstep &&
      make --no-print-directory gate BIN=build/missing/lockstep GATEFLAGS=--packages &&
      make --no-print-directory test ${venv:+"$venv"} LOG="build/missing/$name.json" PACKAGES="${packages//,/ }" TESTFLAGS="-count=1 -run '$tests'"
  ) >"$log" 2>&1; then outcome=ok; else outcome=FAILED; fi
  for want in ${lacking//,/ }; do
    if [ "$want" != - ] && ! grep -qE "not (run for want of|here:) $want" "$log"; then outcome="FAILED: it does not say what was not run for want of $want"; fi
  done
  if [ "$outcome" = ok ]; then sed -n '/not run for want of/p; /^  [a-z].*: Test/p; s/^not here: /not run: /p' "$log"; else cat "$log"; failed=1; fi
  echo "$name: $outcome"
done <<<"$variants"
if [ "$ran" = 0 ]; then echo "missing.sh: no variant was run" >&2; exit 1; fi
exit "$failed"
