"""What Slurm's configuration says: names, rights, whose jobs are ours, which nodes are near each other."""
