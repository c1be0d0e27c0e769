"""Slurm's snapshot joined with the journal, the control folders and the profiles: what `scheduler` decides on."""
