"""The reason why a managed job waits, as a comment in Slurm's own record, where squeue and scontrol show it."""
