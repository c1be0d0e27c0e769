"""The aggregator: a process that holds master copies of tensors, adds gradients up and applies an optimizer."""
