"""One command a file: its docstring is its help."""
