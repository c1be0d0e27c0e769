"""Step times beside generators of load, as samples for `tiresias interference fit`."""
