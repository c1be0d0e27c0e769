"""The records that the ledger has applied: nothing is left to do for a job until its record or its row changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.backends.record_values import ObjectPlaces
from tiresias.slurm_plugin.state import own_tasks
from tiresias.slurm_plugin.state.change_stamps import stamps_of
from tiresias.slurm_plugin.state.journal_rows import JobRow


class _Applied(NamedTuple):
    """record: as Slurm has it. stamp: of the row. restored: the job as own_tasks.py returns it."""

    record: SlurmJob
    stamp: int
    restored: SlurmJob


class _Table(NamedTuple):
    """What is known of records, shape (records + 1,), the last one of no record: the id, the stamp that the row had when the record
    was applied, -1 where it was not, and the job as own_tasks.py returned it then."""

    ids: NDArray[np.object_]
    stamps: NDArray[np.int64]
    restored: NDArray[np.object_]

    def at(self, place: NDArray[np.int64], jobs: Sequence[SlurmJob]) -> _Table:
        """Return the table of the records at these places; where there is none, of the job that has been given, not applied."""
        found = _Table(*(column[np.append(place, -1)] for column in self))
        for at in np.flatnonzero(place < 0).tolist():
            found.ids[at] = jobs[at].id
        return found


_NOTHING = _Table(np.full(1, "", np.object_), np.full(1, -1), np.full(1, None, np.object_))
_NO_ROW = JobRow("", "", 0, 0.0)  # its stamp is of no other row


class AppliedRecords:
    """The newest applied record of each job."""

    def __init__(self) -> None:
        self._new: dict[str, _Applied] = {}  # by job id, since the newest call
        self._places, self._table = ObjectPlaces(), _NOTHING  # of the newest call
        self._rows: Sequence[JobRow] = ()  # of its jobs
        self._population = -1  # when these were found

    def add(self, job: SlurmJob, row: JobRow) -> None:
        """Note that the record has been applied to the row."""
        self._new[job.id] = _Applied(job, row.stamp, own_tasks.restored(row, job))

    def others(self, jobs: Sequence[SlurmJob], rows: Mapping[str, JobRow], population: int) -> list[SlurmJob]:
        """Return the jobs whose record has not been applied, or whose row is not as it was then. O(jobs log(jobs)).

        Args:
            jobs: Records.
            rows: The rows of all jobs that have one, by job id.
            population: A number that changes whenever a row is added or removed.
        """
        return list(compress(jobs, (~self._are_current(jobs, rows, population)).tolist()))

    def restored(self, jobs: Sequence[SlurmJob], rows: Mapping[str, JobRow], population: int) -> list[SlurmJob]:
        """Return the jobs that have rows, with their owners' requests, as `others` takes them.

        Each is the same object until its record or its row changes. O(jobs log(jobs)).
        """
        are_current = self._are_current(jobs, rows, population)
        found: list[Any] = self._table.restored[:-1].tolist()
        for at in np.flatnonzero(~are_current).tolist():
            row = self._rows[at]
            found[at] = own_tasks.restored(row, jobs[at]) if row is not _NO_ROW else None
        return list(filter(None, found))

    def clear(self) -> None:
        """Forget all jobs."""
        self._new.clear()
        self._places, self._table, self._population = ObjectPlaces(), _NOTHING, -1

    def _are_current(self, jobs: Sequence[SlurmJob], rows: Mapping[str, JobRow], population: int) -> NDArray[np.bool_]:
        """Return for which jobs what is known is of their present records and rows."""
        if is_changed := not self._places.are(jobs):
            places = ObjectPlaces(jobs)
            self._table, self._places = self._table.at(places.in_others(self._places), jobs), places
        if is_changed or population != self._population:
            self._rows = list(map(rows.get, self._table.ids[:-1].tolist(), repeat(_NO_ROW)))
            self._population = population
        stamps = stamps_of(self._rows)
        self._take_new(jobs, np.flatnonzero(self._table.stamps[:-1] != stamps).tolist())
        found: NDArray[np.bool_] = self._table.stamps[:-1] == stamps
        return found

    def _take_new(self, jobs: Sequence[SlurmJob], places: Sequence[int]) -> None:
        """Enter what was added since the newest call. places: of the jobs of which that may be."""
        for at in places if self._new else ():
            new = self._new.get(self._table.ids[at])
            if new and new.record is jobs[at]:
                self._table.stamps[at], self._table.restored[at] = new.stamp, new.restored
        self._new.clear()
