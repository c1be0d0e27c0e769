"""Builds and runs a private, real Slurm on one machine, and replays traces on it as real jobs."""
