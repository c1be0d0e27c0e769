"""The checkpoint store and the training-side API. Standard library only at its core."""
