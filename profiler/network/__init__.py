"""The node's adapters: their speed, and what they counted beside what was recorded."""
