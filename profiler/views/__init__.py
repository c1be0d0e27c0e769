"""The output of a profile: tables, text plots and PNG files."""
