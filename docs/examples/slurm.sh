#!/bin/sh
# A plan in parts as a Slurm array: one task a shard. First, once:
#   lockstep shard plan --out RUN --shards 100 --data_path data --pid-grid grid.txt
# then
#   sbatch docs/examples/slurm.sh RUN
# and, when it has ended, `lockstep shard merge --out RUN`. A task that died is made good by
# the same sbatch again: shards that are there are not computed twice.
#SBATCH --array=0-99
#SBATCH --cpus-per-task=4
#SBATCH --time=01:00:00
exec lockstep shard run --out "$1" --index "$SLURM_ARRAY_TASK_ID" --workers "${SLURM_CPUS_PER_TASK:-1}"
