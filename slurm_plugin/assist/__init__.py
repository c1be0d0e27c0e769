"""Mode assist: reads Slurm's order, and decides which jobs are preempted for the ones that Slurm ranks first."""
