"""The rules of slabs: bitmap, activity, placement, eviction and a donor's memory. No clock, no socket and no file."""
