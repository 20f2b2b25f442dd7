#!/bin/sh
# Generates the assembly of a package again, in a copy, and compares.
set -e
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir -p "$copy/internal" "$copy/$1"
cp -R internal/_arm64 "$copy/internal"
cp -R "$1/." "$copy/$1"
rm "$copy/$1"/*_avx*_amd64.* "$copy/$1"/*_neon_arm64.*
(cd "$copy/$1" && go generate doc.go)
diff -r "$1" "$copy/$1"
