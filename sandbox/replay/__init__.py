"""Runs traces as real jobs on private clusters, and measures the results."""
