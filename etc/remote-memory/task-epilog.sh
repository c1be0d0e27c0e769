#!/bin/sh
# Slurm's TaskEpilog: at the end of a job of sbatch, a line in its output about its remote memory. Jobs of tsbatch have it without this.
PATH=/usr/bin:/bin
export PATH
test -d "/run/tiresias/remote-memory/jobs/$SLURM_JOB_ID" || exit 0
exec ${JOB_SWAP_PROGRAM:-/usr/libexec/slurm-tiresias/job-swap} lines
