"""The agent: what a PyTorch training program imports to train through the parameter service."""
