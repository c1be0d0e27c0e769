"""The parts of `tiresias status --watch`: keys, their effect on the view, the listed jobs, and the terminal."""
