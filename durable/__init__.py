"""What programs that outlive a failure are built on: the lease of the one that leads, and a state database that is fenced by it."""
