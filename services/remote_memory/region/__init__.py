"""A region as memory of a program: pages come in by page faults, and leave when more are resident than allowed."""
