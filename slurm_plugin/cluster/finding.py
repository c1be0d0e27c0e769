"""The result of a check, and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

_MAX_NAMED = 5  # in one message


class Level(IntEnum):
    """Severity of a finding."""

    FINE = 0
    ADVICE = 1  # works, but not optimally
    RISK = 2  # may fail: the controller logs a warning at each start
    BLOCKS = 3  # mode exact cannot work


class Finding(NamedTuple):
    """One finding.

    Attributes:
        level: severity
        about: what was checked, a word or two
        words: the finding
        remedy: what to do, "" if all is well
    """

    level: Level
    about: str
    words: str
    remedy: str = ""


def fine(about: str, words: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(Level.FINE, about, words)


def named(names: Sequence[str]) -> str:
    """Return the first of the names, and how many more there are."""
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more
