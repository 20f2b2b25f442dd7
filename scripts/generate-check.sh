#!/bin/sh
# Generates the assembly of a package again, in a copy, and compares.
set -e
cd "$1"
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -R . "$copy"
rm "$copy"/*_avx*_amd64.* && rm -f "$copy"/*_neon_arm64.*
(cd "$copy" && go generate doc.go)
diff -r . "$copy"
