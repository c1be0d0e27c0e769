"""Slurm's accounting: the rows of sacct as jobs, their comparison with the ledger, and a state database rebuilt from them."""
