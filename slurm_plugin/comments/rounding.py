"""Rounded numbers: a text made of them changes seldom, and each change is a call to slurmctld."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
# values in seconds to which an estimate is rounded up
_STEPS = (
    *(_MINUTE * count for count in (1, 2, 5, 10, 15, 20, 25, 30, 40, 50)),
    *(_HOUR * count for count in (1, 2, 3, 4, 6, 8, 12, 18)),
    *(_DAY * count for count in (1, 2, 3, 5, 7, 10, 14, 20, 30)),
)

# values in seconds to which a predicted moment is rounded
_MOMENTS = (5 * _MINUTE, 10 * _MINUTE, 30 * _MINUTE, _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY)


def count(number: int) -> int:
    """Return `number`, exact up to 20, otherwise with two digits: the nearest multiple of 10, 100, 1000 and so on."""
    if number <= 20:
        return number
    step = int(10 ** max(len(str(number)) - 2, 1))
    return (number + step // 2) // step * step


def ordinal(number: int) -> str:
    """Return text such as "12th", or "about 120th" where it is rounded."""
    rounded = count(number)
    ending = "th" if 10 <= rounded % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(rounded % 10, "th")
    about = "about " if number > 20 else ""
    return f"{about}{rounded}{ending}"


def estimate(seconds: float) -> str:
    """Return text such as "25 min", "2 h" or "3 days"; "" for no estimate."""
    if not 0 <= seconds < math.inf:
        return ""
    step = next((one for one in _STEPS if seconds <= one), 0)
    if not step:
        return ""
    for unit, word in ((_DAY, "day"), (_HOUR, "h"), (_MINUTE, "min")):
        if step >= unit:
            number = step // unit
            return f"{number} {word}{'s' if word == 'day' and number > 1 else ''}"
    return ""


def part_of_interval(seconds: float) -> int:
    """Return the seconds to which a moment is rounded whose interval is so wide: about a quarter of it."""
    return next((step for step in _MOMENTS if step >= seconds / 4), _DAY)


def moment(at: float, now: float, step: int, rounded: Callable[[float], int]) -> str:
    """Return text such as "14:30", or "28 Nov 14:30" on another day, in local time.

    Args:
        at: The moment, epoch seconds.
        now: The present.
        step: Seconds to a multiple of which it is rounded.
        rounded: How: `round`, `math.floor` or `math.ceil`.
    """
    found, today = time.localtime(rounded(at / step) * step), time.localtime(now)
    return time.strftime("%H:%M" if found[:3] == today[:3] else "%d %b %H:%M", found)
