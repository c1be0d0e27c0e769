"""What follows from the runs of the jobs that have not ended: the cost of a preemption, and the totals of the cluster.

The costs of a run are measured by its supervisor and by the actor, and stored here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow
from tiresias.slurm_plugin.state.save_proof import SaveProof
from tiresias.slurm_plugin.state.totals import Place, Totals
from tiresias.slurm_plugin.state.usage import Window, preemption_cost, usage

EVER = Window(0.0, math.inf)


class UsageAccounting:
    """Keeps the costs and the totals up to date.

    Args:
        journal: The journal.
        jobs: The rows of the ledger, by job id.
        runs: Their runs, by the job's key and the restart count.
        saves: Which jobs are known to save on request.

    Attributes:
        costs: Seconds that a preemption costs, by job id; nan: unknown.
        totals: Waits and costs, summed by partition and account.
    """

    def __init__(
        self,
        journal: Journal,
        jobs: Mapping[str, JobRow],
        runs: Mapping[str, Mapping[int, RunRow]],
        saves: SaveProof,
    ) -> None:
        self._journal, self._jobs, self._runs, self._saves = journal, jobs, runs, saves
        self._time = -math.inf  # of the newest snapshot
        self._places: dict[str, Place] = {}  # by job id
        self.totals = Totals()
        self.costs = {row.id: preemption_cost(in_order(runs[row.key])) for row in jobs.values()}

    def begin_cycle(self, now: float) -> None:
        """Begin with a new snapshot. The totals leave out what preceded the first one: another controller led then."""
        if self._time == -math.inf:
            for row in self._jobs.values():
                self.totals.skip(row.key, usage(row, in_order(self._runs[row.key]), EVER, now))
        self._time = now

    def note_place(self, row: JobRow, job: SlurmJob) -> None:
        """Note the partition and the account in which the job counts."""
        self._places[row.id] = Place(job.partition, job.account)

    def count(self, row: JobRow) -> None:
        """Count the job in the totals, once its place is known."""
        if place := self._places.get(row.id):
            self.totals.count(row.key, place, usage(row, in_order(self._runs[row.key]), EVER, self._time))

    def note(
        self, row: JobRow, restart: int, *, restore: float | None = None, save: float | None = None,
        pause: float | None = None, redone: int | None = None, pace: float | None = None, lost: float | None = None,
    ) -> None:  # fmt: skip
        """Store the measured costs of a run; None leaves the stored value."""
        run = self._runs[row.key].get(restart)
        measured = {"restore": restore, "save": save, "pause": pause, "redone": redone, "pace": pace, "lost": lost}
        news = {
            name: value for name, value in measured.items() if value is not None and getattr(run, name, None) != value
        }
        if run is None or not news:
            return
        for name, value in news.items():
            setattr(run, name, value)
        self._journal.save_run(run)
        self.count(row)
        self.costs[row.id] = preemption_cost(in_order(self._runs[row.key]))
        if save is not None:
            self._saves.note_saved(row)
        if pause is not None:
            self._saves.note_parked(row)

    def forget(self, row: JobRow) -> None:
        """Drop a job that has ended."""
        self.costs.pop(row.id, None)
        self._places.pop(row.id, None)
        self.totals.forget(row.key)


def in_order(runs: Mapping[int, RunRow]) -> list[RunRow]:
    """Return the runs of a job, sorted by restart count."""
    return [run for _, run in sorted(runs.items())]
