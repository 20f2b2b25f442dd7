#!/bin/bash
# Counts, by a plugin of qemu-user, how many instructions of arm64 a pass of the network takes in a
# rollout of engine batched: one rollout of 30 steps is run, and one of 50, of the same route. What
# differs is 20 passes, without what a program's beginning takes.
set -euo pipefail
cd "$(dirname "$0")/../.."
qemu=$(command -v qemu-aarch64) || { echo 'not run: as root: apt-get install qemu-user'; exit 0; }
folder=build/arm64/count
rm -rf $folder && mkdir -p $folder/{30,50}
${CC:-cc} -O2 -Wall -Wextra -shared -fPIC -o $folder/count.so scripts/arm64/count.c
CGO_ENABLED=0 GOOS=linux GOARCH=arm64 ${GO:-go} build -o $folder/lockstep ./cmd/lockstep
for steps in 30 50; do # the network comes in at row 100, and 1 line is the head
  head -n $((101 + steps)) internal/defaults/routes/g00002.csv > $folder/$steps/short.csv
  GOMAXPROCS=1 "$qemu" -cpu neoverse-n1 -d plugin -D $folder/$steps.count -plugin $folder/count.so \
    $folder/lockstep rollout --engine batched --workers 1 --own --data_path $folder/$steps --num_segs 1 \
    --controller pid --profile ort1.30arm-neon-expC-sinfma-csvexact --json > $folder/$steps.json
done
paste -d ' ' $folder/30.count $folder/50.count | awk '{
  instructions = ($3 - $1) / 20; fused = ($4 - $2) / 20; needed = 13.06e6 / 4
  printf "a pass: %.3f million instructions, %.3f million of them multiply and add four numbers\n", instructions / 1e6, fused / 1e6
  printf "its products need %.3f million such; %.2f instructions for each of these\n", needed / 1e6, instructions / needed
  printf "a rollout of 480 passes: %.2f·10⁹ instructions for %.2f·10⁹ multiply-adds of numbers\n", instructions * 480 / 1e9, 13.06e6 * 480 / 1e9 }'
