"""A profile for people: tables and text plots, and pictures."""
