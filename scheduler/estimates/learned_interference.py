"""A table of interference learned from a site's own runs, and whether it predicts their slowdowns better than none does.

The slowdowns of pairs of kinds are completed to a whole matrix (`co_run_matrix.py`). Each fifth of the samples is predicted from
the others; the table is used only where the errors are surely less than those of no interference at all. Pure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.estimates.co_located_runs import CoRunSample, owner_of
from tiresias.scheduler.estimates.co_run_matrix import complete
from tiresias.scheduler.estimates.interference import is_surely_less
from tiresias.scheduler.estimates.job_kinds import alike
from tiresias.scheduler.interference_table import InterferenceTable
from tiresias.scheduler.model import Bools, Floats, Ints

MOST_KINDS = 12  # those with the most samples: the time grows with the sixth power
LEAST_SAMPLES = 10
FOLDS = 5


class LearnedInterference(NamedTuple):
    """The result.

    Attributes:
        table: It; None: it is not surely better than no interference.
        samples: The samples that it was learned from.
        error: Mean relative error of slowdowns that were left out; nan: too few samples.
        error_without: The same if no interference is expected.
    """

    table: InterferenceTable | None = None
    samples: int = 0
    error: float = math.nan
    error_without: float = math.nan


NOTHING_LEARNED = LearnedInterference()


def learning(samples: Sequence[CoRunSample]) -> Iterator[LearnedInterference | None]:
    """Yield None after each part of the computation, so that it can be continued later, then the result."""
    kinds = _most_frequent(samples)
    rows = _Rows.of([one for one in samples if one.kind in kinds and one.other in kinds], kinds)
    if len(rows.load) < LEAST_SAMPLES:
        yield LearnedInterference(samples=len(rows.load))
        return
    predicted = np.ones(len(rows.load))
    fold = np.arange(len(rows.load)) % FOLDS
    for number in range(FOLDS):
        held = fold == number
        predicted[held] = rows.part(held).predicted(_slowdowns(rows.part(~held), kinds))
        yield None
    errors, without = np.abs(predicted / rows.slowdown - 1.0), np.abs(1.0 / rows.slowdown - 1.0)
    table = InterferenceTable.of(kinds, _slowdowns(rows, kinds)) if is_surely_less(errors, without) else None
    yield LearnedInterference(table, len(errors), float(errors.mean()), float(without.mean()))


def _most_frequent(samples: Sequence[CoRunSample]) -> tuple[str, ...]:
    """Return the kinds that the table has: of each owner's the most frequent one, then of each the second one, and so on, so that
    the kinds of one owner do not displace those of others."""
    count, of_owner = Counter(name for one in samples for name in (one.kind, one.other)), Counter[str]()
    places = []
    for name, number in sorted(count.items(), key=lambda one: (-one[1], one[0])):
        owner = owner_of(name)
        places.append((of_owner[owner], -number, name))
        of_owner[owner] += 1
    return tuple(sorted(name for *_, name in sorted(places)[:MOST_KINDS]))


class _Rows(NamedTuple):
    """Samples: kinds as rows of the table, load and slowdown; each of shape (samples,)."""

    kind: Ints
    other: Ints
    load: Floats
    slowdown: Floats

    @classmethod
    def of(cls, samples: Sequence[CoRunSample], kinds: Sequence[str]) -> _Rows:
        row = {name: at for at, name in enumerate(kinds)}
        pairs = np.array([(row[one.kind], row[one.other]) for one in samples], np.int64).reshape(-1, 2)
        numbers = np.array([(one.load, one.slowdown) for one in samples], np.float64).reshape(-1, 2)
        return cls(pairs[:, 0], pairs[:, 1], numbers[:, 0], numbers[:, 1])

    def part(self, rows: Bools) -> _Rows:
        return _Rows(self.kind[rows], self.other[rows], self.load[rows], self.slowdown[rows])

    def predicted(self, slowdowns: Floats) -> Floats:
        """Return the slowdown that a table expects of each sample. slowdowns: shape (kinds, kinds)."""
        return np.asarray(1.0 + self.load * (slowdowns[self.kind, self.other] - 1.0))


def _slowdowns(rows: _Rows, kinds: Sequence[str]) -> Floats:
    """Return the slowdown of each kind beside one job of each kind, shape (kinds, kinds)."""
    measured = np.full((len(kinds), len(kinds)), np.nan)
    beside_one = np.maximum(1.0 + (rows.slowdown - 1.0) / rows.load, 1.0)
    for kind, other in set(zip(rows.kind.tolist(), rows.other.tolist(), strict=True)):
        measured[kind, other] = 1.0 / np.median(beside_one[(rows.kind == kind) & (rows.other == other)])
    return np.asarray(1.0 / complete(measured, alike(kinds)).ratio)
