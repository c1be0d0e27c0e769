"""Stage place: on which nodes a job gets its GPUs."""
