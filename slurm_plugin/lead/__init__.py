"""Of several controllers one leads: its lease, those who wait, and what keeps one that comes too late from doing harm."""
