"""The ids, rows and runs of jobs, kept while the jobs are the same and the ledger has added or removed no row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import compress
from operator import attrgetter

import numpy as np

from tiresias.scheduler.model import Bools
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.backends.record_values import are_same, id_of
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow
from tiresias.slurm_plugin.state.ledger import Ledger


class LedgerTable:
    """Jobs that have rows, in the order of their records.

    Attributes:
        jobs: Their records.
        ids: Their ids.
        rows: Their rows.
    """

    def __init__(self, jobs: Sequence[SlurmJob], ids: tuple[str, ...], rows: Sequence[JobRow], ledger: Ledger) -> None:
        self.jobs, self.ids, self.rows, self._ledger = jobs, ids, rows, ledger

    def where(self, chosen: Bools) -> LedgerTable:
        """Return the table of some of the jobs. chosen: shape (jobs,)."""
        some = chosen.tolist()
        ids, rows = tuple(compress(self.ids, some)), tuple(compress(self.rows, some))
        return LedgerTable(tuple(compress(self.jobs, some)), ids, rows, self._ledger)

    @cached_property
    def row_of(self) -> Mapping[str, int]:
        """The place of each job by its id."""
        return dict(zip(self.ids, range(len(self.ids)), strict=True))

    @cached_property
    def runs(self) -> Sequence[dict[int, RunRow]]:
        """The runs of each job by restart count."""
        return list(map(self._ledger.runs.__getitem__, map(attrgetter("key"), self.rows)))


class KeptLedgerTable:
    """The table of the newest call, and of those of its jobs that were chosen last."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._population = ledger.population  # when the rows were found
        self._table = self._part = LedgerTable((), (), (), ledger)
        self._chosen = np.zeros(0, np.bool_)

    def has(self, jobs: Sequence[SlurmJob]) -> bool:
        """Return whether these are the jobs of the newest call, and all have rows still. O(jobs)."""
        return self._ledger.population == self._population and are_same(jobs, self._table.jobs)

    def of(self, jobs: Sequence[SlurmJob]) -> LedgerTable:
        """Return the table of jobs that all have rows. O(jobs)."""
        if not self.has(jobs):
            ids = tuple(map(id_of, jobs))
            self._table = LedgerTable(tuple(jobs), ids, tuple(map(self._ledger.jobs.__getitem__, ids)), self._ledger)
            self._part, self._chosen = self._table, np.ones(len(ids), np.bool_)
            self._population = self._ledger.population
        return self._table

    def where(self, jobs: Sequence[SlurmJob], chosen: Bools) -> LedgerTable:
        """Return the table of some of the jobs that `of` takes. O(jobs). chosen: shape (jobs,)."""
        table = self.of(jobs)
        if not np.array_equal(chosen, self._chosen):
            self._part, self._chosen = table.where(chosen), chosen
        return self._part
