"""Stage admit: which waiting jobs Slurm could start, and which of them may hold GPUs."""
