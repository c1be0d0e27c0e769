"""What numbers look like: tables, files, plots. They simulate nothing."""
