"""The lease of the one controller that leads."""
