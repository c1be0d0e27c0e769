"""What is learned from completed jobs: how long jobs run and how much service they need."""
