"""TIRESIAS_STEPS_FROM=REGEX (`tsbatch --steps-from`): the step of a program that only prints its progress.

The pattern is searched in the lines that the job writes. Its groups named `step` and `total`, else its first and second group, are
the steps that are done and those of the whole job; the second one may be missing. Where `total` alone is named, the first other
group is the step. Commas, underscores, apostrophes and spaces in a number are skipped: "1,200 / 5,000" is 1200 of 5000.
"""

from __future__ import annotations

import re
import warnings

from tiresias.errors import UsageError

OPTION = "--steps-from"
LONGEST_PATTERN = 500  # characters
LONGEST_LINE = 4096  # characters: a longer line is searched up to here
MOST_DIGITS = 15  # of a number: all below control.MOST, which is not imported here: tsbatch imports no json
_SEPARATORS = str.maketrans("", "", ", _'")


def check(pattern: str) -> None:
    """Raise UsageError for what is no pattern with a group."""
    if not 0 < len(pattern) <= LONGEST_PATTERN or not pattern.isprintable():
        raise UsageError(f"{OPTION}: give a pattern of 1 to {LONGEST_PATTERN} printable characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as "[[", which later releases of Python may read in another way
            found = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"{OPTION}='{pattern:.60}': {error}") from None
    if not _groups(found)[0]:
        raise UsageError(rf"{OPTION}='{pattern:.60}': it has no group for the step; such as 'step (\d+)/(\d+)'")


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
    """Return the numbers of the groups of the step and of the total; 0: the pattern has none."""
    names = pattern.groupindex
    total = names.get("total", 0)
    if "step" in names:
        return names["step"], total
    first, second = ([each for each in range(1, pattern.groups + 1) if each != total] + [0, 0])[:2]
    return first, total or second


def _count(text: str | None) -> int:
    digits = (text or "").translate(_SEPARATORS)
    return int(digits) if digits.isdecimal() and len(digits) <= MOST_DIGITS else -1
