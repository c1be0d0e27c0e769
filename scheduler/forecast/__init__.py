"""When a waiting job starts: an upper bound, an estimate, and what has to happen before."""
