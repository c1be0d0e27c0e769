"""Services that jobs of several users share."""
