"""What a job sends over the network, and the placement that follows from it."""
