"""Shares between the owners of jobs: what they used, and how that changes the order of their jobs."""
