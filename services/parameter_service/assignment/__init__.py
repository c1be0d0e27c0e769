"""Which aggregator holds which tensor: pure, without clocks, sockets or files (AutoPS, sections 4.3.3.2-4.3.3.5)."""
