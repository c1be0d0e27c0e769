"""The messages of remote memory."""
