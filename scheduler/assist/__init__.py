"""Mode assist: Slurm orders and starts the jobs; decided is which running jobs are preempted for the ones that it ranks first."""
