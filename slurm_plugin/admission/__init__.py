"""Which rules of Slurm keep a waiting job from starting: those that can be read, and those that a refused start shows."""
