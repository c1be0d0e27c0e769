"""Elastic jobs of a simulation: their sizes, their speed by size and placement, and what is predicted of them."""
