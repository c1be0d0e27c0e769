"""Runs traces as real jobs on private clusters, and measures what became of them."""
