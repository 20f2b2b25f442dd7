#!/bin/sh
# Generates the assembly again, in a copy of the package, and compares.
set -e
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -R . "$copy"
rm "$copy"/*_avx*_amd64.*
(cd "$copy" && go generate doc.go)
diff -r . "$copy"
