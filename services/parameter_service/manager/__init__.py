"""The manager of the parameter service: registers jobs, assigns tensors, keeps aggregators as Slurm jobs within a budget."""
