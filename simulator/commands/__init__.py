"""The commands: one a file, its docstring is its help."""
