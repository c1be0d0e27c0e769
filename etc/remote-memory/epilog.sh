#!/bin/sh
# Slurm's Epilog on each node: removes the swap of a job. A site that has an Epilog adds the last lines to it.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
exec ${JOB_SWAP_PROGRAM:-/usr/libexec/slurm-tiresias/job-swap} epilog /etc/tiresias/remote-memory.json
