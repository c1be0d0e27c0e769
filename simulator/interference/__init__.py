"""Measurements of how jobs slow each other, read from tables."""
