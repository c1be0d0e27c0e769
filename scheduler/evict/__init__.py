"""Stage evict: which running jobs release GPUs, and whether that is worth its cost."""
