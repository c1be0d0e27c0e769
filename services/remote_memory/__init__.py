"""Remote memory: donors lend idle memory of nodes in slabs; clients store the pages of a region there and on local disk."""
