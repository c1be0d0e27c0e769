"""Two users compete on a private cluster while the live view is shown and recorded: a demonstration for a talk."""
