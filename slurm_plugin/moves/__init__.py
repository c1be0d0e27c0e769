"""The steps of starts and preemptions, and what they have in common; act.py takes them in order."""
