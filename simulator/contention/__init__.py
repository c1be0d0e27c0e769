"""How simulated jobs slow each other: through the servers that they share, and through the links of the network."""
