"""Stage size: how many GPUs each job gets."""
