"""The service of many jobs at once, from their runs: the formulas of scheduler/attained_service.py on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints
from tiresias.slurm_plugin.state.change_stamps import stamps_of
from tiresias.slurm_plugin.state.journal_rows import RunRow


class RunColumns(NamedTuple):
    """Columns of `Jobs` that follow from runs, shape (jobs,).

    Attributes:
        first_step: Epoch second of the first step of the present run; nan: it is not known, or there is no run.
        unrestored: Whether there is a present run of which that is not known.
    """

    attained: Floats
    ran: Floats
    waited: Floats
    first_start: Floats
    last_start: Floats
    starts: Ints
    first_step: Floats
    unrestored: Bools


class _RunArrays(NamedTuple):
    """What does not depend on the time. starts, first, last: shape (jobs,); all others: shape (runs,)."""

    starts: Ints
    first: Floats
    last: Floats
    job: Ints
    start: Floats
    end: Floats
    gpus: Floats
    restart: Floats
    restore: Floats


class KeptRuns:
    """The runs of the newest call; the arrays are made again when one of them has changed."""

    def __init__(self) -> None:
        self._stamps: Ints = np.zeros(0, np.int64)
        self._arrays: _RunArrays | None = None

    def columns(self, runs: Sequence[dict[int, RunRow]], restarts: Ints, since: Floats, now: float) -> RunColumns:
        """Return the columns. O(jobs + runs).

        Args:
            runs: The runs of each job by restart count.
            restarts: The restart count of each job's present run.
            since: Epoch second of each job from which service and waiting time count.
            now: Epoch second.
        """
        each = list(chain.from_iterable(map(dict.values, runs)))
        starts = np.fromiter(map(len, runs), np.int64, len(runs))
        stamps = stamps_of(each)
        known = self._arrays
        if known is None or not (np.array_equal(starts, known.starts) and np.array_equal(stamps, self._stamps)):
            self._stamps, self._arrays = stamps, _arrays(each, starts)
        assert self._arrays is not None
        return _columns(self._arrays, restarts, since, now)


def _arrays(each: Sequence[RunRow], starts: Ints) -> _RunArrays:
    count = len(starts)
    job = np.repeat(np.arange(count), starts)
    start, end, gpus, restart = (
        np.fromiter(map(attrgetter(name), each), np.float64, len(each)) for name in ("start", "end", "gpus", "restart")
    )
    restore = np.array([np.nan if one is None else one for one in map(attrgetter("restore"), each)], np.float64)
    first, last = np.full(count, np.nan), np.full(count, np.nan)
    np.fmin.at(first, job, start)
    np.fmax.at(last, job, start)
    return _RunArrays(starts, first, last, job, start, end, gpus, restart, restore)


def _columns(arrays: _RunArrays, restarts: Ints, since: Floats, now: float) -> RunColumns:
    """A run that goes on counts up to the last whole second, as Slurm counts when it ends: a preemption must not reduce service."""
    starts, first, last, job, start, end, gpus, restart, restore = arrays
    count = len(starts)
    until = np.where(end == 0.0, np.maximum(float(int(now)), start), end)
    seconds = np.maximum(0.0, np.minimum(until, now) - np.maximum(start, since[job]))
    ran = np.bincount(job, seconds, count).astype(np.float64)
    attained = np.bincount(job, gpus * seconds, count).astype(np.float64)
    is_present = restart == restarts[job]
    first_step, unrestored = np.full(count, np.nan), np.zeros(count, np.bool_)
    first_step[job[is_present]] = (start + restore)[is_present]
    unrestored[job[is_present]] = np.isnan(restore[is_present])
    return RunColumns(attained, ran, np.maximum(0.0, now - since - ran), first, last, starts, first_step, unrestored)
