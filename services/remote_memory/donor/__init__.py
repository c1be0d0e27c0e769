"""The donor: a process that lends memory of its node."""
