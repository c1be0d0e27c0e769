"""Training of the network that places jobs, with PyTorch: the optional extra `torch`."""
