"""The controller on Slurm: back ends, journal, actions, daemon, views."""
