"""Tiresias on Slurm: preemptive, information-agnostic scheduling of deep-learning jobs."""

__version__ = "0.1.0"
