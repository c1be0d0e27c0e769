"""Discrete-event replay of traces through the same `decide` that the controller runs."""
