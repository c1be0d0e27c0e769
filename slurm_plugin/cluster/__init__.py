"""Slurm's configuration: names, rights, which jobs are managed, which nodes are near each other."""
