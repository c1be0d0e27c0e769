"""The reason why a managed job waits, and the predicted end of an elastic one, as a comment in Slurm's own record, where squeue and
scontrol show it."""
