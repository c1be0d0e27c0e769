"""The client: a region of pages on donors and on local disk."""
