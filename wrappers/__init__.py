"""`tsbatch`, `tsrun` and the in-job supervisor. Standard library only: this runs on compute nodes."""
