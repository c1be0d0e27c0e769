"""What a look found, and what to do about it."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Level(IntEnum):
    FINE = 0
    ADVICE = 1  # works; would work better
    RISK = 2  # works until the day it does not: the controller warns of it each time it starts
    BLOCKS = 3  # mode exact cannot work


class Finding(NamedTuple):
    """about: what was looked at, a word or two. words: what is so. remedy: what to do, "" where all is fine."""

    level: Level
    about: str
    words: str
    remedy: str = ""


def fine(about: str, words: str) -> Finding:
    return Finding(Level.FINE, about, words)
