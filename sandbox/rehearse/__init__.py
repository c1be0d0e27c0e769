"""`tiresias rehearse`: a user's test of their own checkpointing, on a real Slurm."""
