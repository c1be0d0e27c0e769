"""Conversion of columns of cells to numbers and words. A column is converted at once; a ValueError contains the reason."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from datetime import datetime, timezone

import numpy as np

from tiresias.scheduler.model import Floats

MOST_GPUS = 10**9  # a larger request is an error
LARGEST = 1e15  # of any number: sums and products of such are finite

_ID = re.compile(r"\w[\w.:+-]{0,127}")  # ids occur in names of files and in messages
_NOTHING = frozenset(("", "None", "none", "nan", "NaN", "null", "Unknown"))


def ids(cells: Sequence[str]) -> list[str]:
    """Return job ids."""
    names = [cell.strip() for cell in cells]
    if not all(map(_ID.fullmatch, names)):
        raise ValueError("is not possible; give every job an id of letters, digits and _ . : + -")
    return names


def words(cells: Sequence[str]) -> list[str]:
    """Return the words. Few different ones are expected, and each is in memory once."""
    kept = {cell: sys.intern(cell.strip()) for cell in set(cells)}
    return list(map(kept.__getitem__, cells))


def numbers(cells: Sequence[str]) -> Floats:
    """Return finite numbers."""
    try:
        values = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        values = np.array([math.nan])
    if not np.isfinite(values).all():
        raise ValueError("is not a number; write one, or remove the job")
    if not (np.abs(values) <= LARGEST).all():
        raise ValueError("is too large to be meant; remove the job")
    return values


def seconds(cells: Sequence[str]) -> Floats:
    """Return seconds, 0 or more."""
    values = numbers(cells)
    if not (values >= 0).all():
        raise ValueError("is not possible; write seconds, 0 or more, or remove the job")
    return values


def gigabytes(cells: Sequence[str]) -> Floats:
    """Return amounts of memory, GB, 0 or more."""
    values = numbers(cells)
    if not (values >= 0).all():
        raise ValueError("is not possible; write GB, 0 or more")
    return values


def gpus(cells: Sequence[str]) -> Floats:
    """Return numbers of GPUs, 1 or more."""
    values = numbers(cells)
    if not ((values >= 1) & (values <= MOST_GPUS) & (values == np.floor(values))).all():
        raise ValueError("is not possible; write a whole number, 1 or more, or remove the job")
    return values


def sizes(cells: Sequence[str]) -> Floats:
    """Return numbers of GPUs, 1 or more; empty cells are nan."""
    values = numbers_or_nothing(cells)
    known = values[~np.isnan(values)]
    if not ((known >= 1) & (known <= MOST_GPUS) & (known == np.floor(known))).all():
        raise ValueError("is not possible; write a whole number, 1 or more, or nothing")
    return values


def numbers_or_nothing(cells: Sequence[str]) -> Floats:
    """Return numbers; empty cells, None, nan and Unknown are nan."""
    values = [cell.strip() for cell in cells]
    there = np.array([value not in _NOTHING for value in values], bool)
    result = np.full(len(values), math.nan)
    result[there] = numbers([value for value in values if value not in _NOTHING])
    return result


def steps(cells: Sequence[str]) -> Floats:
    """Return numbers of steps, above 0; empty cells are nan."""
    values = numbers_or_nothing(cells)
    if (values <= 0).any():
        raise ValueError("is not possible; write a number of steps above 0, or nothing")
    return values


def moments(cells: Sequence[str]) -> Floats:
    """Return the seconds since 1970 of ISO 8601 times. Times without a zone are taken as UTC, so that a day has 24 hours."""
    return np.fromiter(map(moment, cells), np.float64, len(cells))


def moment(cell: str) -> float:
    """Return the seconds since 1970 of one time, nan for an empty cell."""
    cell = cell.strip()
    if cell in _NOTHING:
        return math.nan
    if cell.isdecimal():  # SLURM_TIME_FORMAT=%s
        return float(numbers([cell])[0])
    try:
        time = datetime.fromisoformat(cell)
        return (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError("is no time; write it as 2017-10-07 01:12:09") from None
