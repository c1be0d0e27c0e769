"""Reads measured pairs of jobs: one line for each job of a pair, CSV, gzip or not.

    job_a,job_b,ratio_a

The kinds of both jobs, and the throughput of the first beside the second divided by its throughput alone. 0: they do not run
together, which is no measurement. Kinds occur with an empty ratio, too: then the pair is one that is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.model import Floats
from tiresias.simulator.formats.cells import numbers_or_nothing, words
from tiresias.simulator.formats.table import Layout, read_table
from tiresias.simulator.formats.trace_file import opened

MOST_KINDS = 300
_MOST_RATIO = 10.0


class MeasuredPairs(NamedTuple):
    """Pairs of a file.

    Attributes:
        kinds: The names of the kinds, sorted.
        ratio: Of the row's kind beside the column's; nan: not measured, shape (kinds, kinds). The geometric mean of several.
    """

    kinds: tuple[str, ...]
    ratio: Floats


def read_pairs(file: Path) -> MeasuredPairs:
    """Return the pairs of a file.

    Raises:
        UsageError: The file is unreadable or has no measured pair, or a number is impossible.
    """
    layout = Layout(numbers={"ratio_a": _ratios}, words={"job_a": _named, "job_b": _named}, closed=True)
    with opened(file, lambda rows: None) as source:
        table = read_table(source, layout)
    first, second, ratio = table.words["job_a"], table.words["job_b"], table.numbers["ratio_a"]
    kinds = tuple(sorted({*first, *second}))
    if len(kinds) > MOST_KINDS:
        raise UsageError(f"{file}: has {len(kinds)} kinds of jobs; name at most {MOST_KINDS}")
    if not (ratio > 0.0).any():
        raise UsageError(f"{file}: has no measured pair; measure some first")
    return MeasuredPairs(kinds, _matrix(kinds, first, second, ratio))


def _matrix(kinds: Sequence[str], first: Sequence[str], second: Sequence[str], ratio: Floats) -> Floats:
    place = {kind: row for row, kind in enumerate(kinds)}
    known = np.flatnonzero(ratio > 0.0).tolist()
    at = (np.array([place[first[row]] for row in known]), np.array([place[second[row]] for row in known]))
    total, count = (np.zeros((len(kinds), len(kinds))) for _ in range(2))
    np.add.at(total, at, np.log(ratio[known]))
    np.add.at(count, at, 1.0)
    return np.where(count > 0.0, np.exp(total / np.maximum(count, 1.0)), np.nan)


def _ratios(cells: Sequence[str]) -> Floats:
    values = numbers_or_nothing(cells)
    if ((values < 0.0) | (values > _MOST_RATIO)).any():
        raise ValueError(f"is not possible; write a ratio between 0 and {_MOST_RATIO:.0f}, or nothing")
    return values


def _named(cells: Sequence[str]) -> Sequence[str]:
    if not all(0 < len(cell.strip()) <= 200 and cell.isprintable() for cell in cells):
        raise ValueError("is no kind of a job; write 1 to 200 printable characters")
    return words(cells)
