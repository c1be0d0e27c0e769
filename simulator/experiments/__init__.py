"""Many simulations as one: side by side, over a range of a knob, beside the numbers of the paper."""
