"""How long an iteration takes: sizes as classes, what repeats, and the time from one repeat to the next."""
