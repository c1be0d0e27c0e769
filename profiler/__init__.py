"""What a job sends over the network, and where it may therefore sit."""
