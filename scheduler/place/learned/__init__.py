"""Placement by a trained network: graphs of the cluster, inference in numpy, and the file of weights."""
