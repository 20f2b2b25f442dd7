#!/usr/bin/env bash
# audit.sh GOVULNCHECK PIP_AUDIT: asks the databases of known vulnerabilities about the modules
# that the program is built of, and about the packages that recordings, tests and the Python
# package are installed with. The arguments are the two tools' commands.
#
# Exit 0: both were asked, and know of nothing. 1: there is a known vulnerability. 3: a database
# was not reached, so that nothing is known; that is no pass.
set -uo pipefail
cd "$(dirname "$0")/.."
govulncheck=$1 pip_audit=$2
status=0 answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

# verdict NAME asked|found|absent
verdict() {
  case $2 in
    asked) echo "audit: $1: nothing is known" ;;
    found) echo "audit: $1: VULNERABLE, see above"; status=1 ;;
    absent) echo "audit: $1: NOT ASKED: its tool or its database cannot be reached from here, so nothing is known"
      [ "$status" = 1 ] || status=3 ;;
  esac
}

$govulncheck ./...
case $? in
  0) verdict 'Go modules' asked ;;
  3) verdict 'Go modules' found ;;
  *) verdict 'Go modules' absent ;;
esac

for list in golden/requirements.txt golden/classic/requirements.txt; do
  : >"$answer"
  $pip_audit --progress-spinner off --format json --output "$answer" -r "$list"
  case $? in
    0) verdict "$list" asked ;;
    *) # pip-audit ends alike with what it has found and where it has not asked; only the first has an answer
      if grep -q '"dependencies"' "$answer"; then cat "$answer"; echo; verdict "$list" found; else verdict "$list" absent; fi ;;
  esac
done
exit "$status"
