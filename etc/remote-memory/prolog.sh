#!/bin/sh
# Slurm's Prolog on each node: starts the swap of a job that requests remote memory. A site that has a Prolog adds the last lines to it.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
exec ${JOB_SWAP_PROGRAM:-/usr/libexec/slurm-tiresias/job-swap} prolog /etc/tiresias/remote-memory.json
