"""Swap of one job, on a block device whose pages are those of a page store."""
