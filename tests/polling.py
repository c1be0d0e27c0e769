"""Pauses between two polls of a condition.

A poll of Slurm starts two processes. Tests run side by side on few cores, so that frequent polls of one test slow all others down.
"""

from __future__ import annotations

import time
from collections.abc import Callable

FIRST_S, LONGEST_S, GROWTH = 0.05, 0.15, 1.25


def pauses() -> Callable[[], None]:
    """Return a function that sleeps a little longer at each call: from FIRST_S to LONGEST_S."""
    seconds = FIRST_S

    def pause() -> None:
        nonlocal seconds
        time.sleep(seconds)
        seconds = min(seconds * GROWTH, LONGEST_S)

    return pause
