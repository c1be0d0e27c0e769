"""TIRESIAS_STEPS_FROM=REGEX (`tsbatch --steps-from`): the step of a program that only prints its progress.

The pattern is searched in the lines that the job writes. Its groups named `step` and `total`, else its first and second group, are
the steps that are done and those of the whole job; the second one may be missing. Commas, underscores, apostrophes and spaces in a
number are skipped: "1,200 / 5,000" is 1200 of 5000.
"""

from __future__ import annotations

import re

from tiresias.errors import UsageError

OPTION = "--steps-from"
LONGEST_PATTERN = 500  # characters
LONGEST_LINE = 4096  # characters: a longer line is searched up to here
MOST_DIGITS = 15  # of a number: all below control.MOST, which is not imported here: tsbatch imports no json
_SEPARATORS = str.maketrans("", "", ", _'")


def check(pattern: str) -> None:
    """Raise UsageError for what is no pattern with a group."""
    if len(pattern) > LONGEST_PATTERN or not pattern.isprintable():
        raise UsageError(f"{OPTION}: give a pattern of at most {LONGEST_PATTERN} printable characters")
    try:
        found = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"{OPTION}={pattern!r:.60}: {error}") from None
    if not found.groups:
        raise UsageError(rf"{OPTION}={pattern!r:.60}: it has no group for the step; such as 'step (\d+)/(\d+)'")


def steps(pattern: re.Pattern[str], line: str) -> tuple[int, int] | None:
    """Return the step and the total that a line states, -1 for no total; None: it states no step.

    The time that a search takes is not bounded: call it where it can be interrupted.
    """
    found = pattern.search(line[:LONGEST_LINE])
    if found is None:
        return None
    of_step, of_total = _groups(pattern)
    step, total = _count(found[of_step]), _count(found[of_total]) if of_total else -1
    return (step, total or -1) if step >= 0 else None


def _groups(pattern: re.Pattern[str]) -> tuple[int, int]:
    """Return the numbers of the groups of the step and of the total; 0: the pattern has none for the total."""
    names = pattern.groupindex
    if "step" in names:
        return names["step"], names.get("total", 0)
    return 1, 2 if pattern.groups > 1 else 0


def _count(text: str | None) -> int:
    digits = (text or "").translate(_SEPARATORS)
    return int(digits) if digits.isdecimal() and len(digits) <= MOST_DIGITS else -1
