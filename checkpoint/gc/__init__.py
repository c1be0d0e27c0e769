"""Garbage collection: the checkpoints of ended jobs, in roots that the jobs of all users share."""
