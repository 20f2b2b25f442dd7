#!/bin/sh
# Builds the stand-in for libcuda.so.1: build.sh FOLDER-OF-CUDA.H FOLDER-TO-WRITE
# The kernels' flags are those of package emulated on a CPU without AVX-512; without
# -ffp-contract=off the compiler would fuse products into sums.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
include=$1 out=$2
cxx=${CXX:-g++}
flags="-std=c++17 -fPIC -O3 -ffp-contract=off -fno-math-errno -Wno-unknown-pragmas -pthread"
case $(uname -m) in x86_64) flags="$flags -march=x86-64-v3" ;; esac
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"

kernels=gpu/internal/kernels cuda=gpu/internal/driver/cuda
key=$(cat $kernels/*.cu $kernels/*.cuh $kernels/*.h \
  $kernels/classic/* $kernels/cpu/*.h $kernels/cpu/device.cpp gpu/standin/* \
  $cuda/include/cuda.h $cuda/internal/stub/main.go | sha256sum)
if [ -f "$out/libcuda.so.1" ] && [ "$(cat "$out/key" 2>/dev/null)" = "$key" ]; then exit 0; fi

header="-I$cuda/include -I$include"
echo '#include <cuda.h>' | ${CC:-cc} -E -P $header -x c - > "$work/cuda.i"
${GO:-go} run ./$cuda/internal/stub -kind rest < "$work/cuda.i" > "$work/rest.c"

# One job for each processor; a failure of any is one of all.
cat > "$work/jobs" <<JOBS
${CC:-cc} -O1 -fPIC $header -c $work/rest.c -o $work/rest.o
$cxx $flags $header -c gpu/standin/libcuda.cpp -o $work/libcuda.o
$cxx $flags -c $kernels/cpu/device.cpp -o $work/device.o
JOBS
for source in $kernels/*.cu; do
  name=$(basename "$source" .cu)
  if grep -q LOCKSTEP_ONLY "$source"; then
    for part in $(sed -n 's/.*LOCKSTEP_VARIANTS(V)//p' $kernels/variants.h | grep -o '[0-9][0-9]*'); do
      echo "$cxx $flags -DLOCKSTEP_ONLY=$part -x c++ -c $source -o $work/$name$part.o" >> "$work/jobs"
    done
  else
    echo "$cxx $flags -x c++ -c $source -o $work/$name.o" >> "$work/jobs"
  fi
done
# These name the shim as they do beside it, in package emulated.
mkdir "$work/classic"
cp $kernels/classic/*.cu $kernels/classic/*.cuh $kernels/classic/*.h "$work/classic"
cp -r $kernels/cpu "$work/classic/cpu"
echo "$cxx $flags -x c++ -c $work/classic/classic.cu -o $work/classic.o" >> "$work/jobs"
xargs -P "$(nproc)" -I{} sh -c '{}' < "$work/jobs"
$cxx -shared -pthread -Wl,-soname,libcuda.so.1 -o "$work/libcuda.so.1" "$work"/*.o -ldl
mv "$work/libcuda.so.1" "$out/libcuda.so.1"
echo "$key" > "$out/key"
