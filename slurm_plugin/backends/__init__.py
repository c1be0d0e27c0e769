"""One protocol, two ways to talk to Slurm."""
