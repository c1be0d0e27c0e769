"""The pure core: jobs, cluster, service arithmetic, policies, placement, `decide`. No I/O, no clock, no Slurm."""
