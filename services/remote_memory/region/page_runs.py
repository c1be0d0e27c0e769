"""Runs of consecutive pages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

Run = tuple[int, int]  # the first page, and how many


def divided(run: Run, accessed: list[bool]) -> list[tuple[bool, Run]]:
    """Divide a run where `accessed` changes."""
    parts, first = [], run[0]
    for used, group in groupby(accessed):
        pages = len(list(group))
        parts.append((used, (first, pages)))
        first += pages
    return parts


def outside(run: Run, first: int, end: int) -> Iterator[Run]:
    """Yield the parts of a run before `first`, and from `end` on."""
    start, stop = run[0], sum(run)
    if start < first:
        yield start, min(stop, first) - start
    if stop > end:
        yield max(start, end), stop - max(start, end)


def joined(runs: list[Run]) -> list[Run]:
    """Join runs that follow each other."""
    found: list[Run] = []
    for first, count in runs:
        if found and sum(found[-1]) == first:
            found[-1] = (found[-1][0], found[-1][1] + count)
        else:
            found.append((first, count))
    return found
