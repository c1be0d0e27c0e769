"""Why jobs wait, run or are preempted, in words: of a decision with virtual clusters in terms of their cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiresias.scheduler.decide import reason
from tiresias.scheduler.reasons import in_words
from tiresias.scheduler.tenants.cell_reasons import CellReasons

if TYPE_CHECKING:
    from tiresias.slurm_plugin.sockets.publication import Publication


class ShownReasons:
    """The reasons of one publication; used by the socket's thread only."""

    def __init__(self, newest: Publication) -> None:
        """Read the cells, without their trees, where there are virtual clusters."""
        self._newest = newest
        report = newest.cells(trees=False) if newest.cells is not None else None
        preempting = newest.phases.keys()
        self._cells = CellReasons(newest.plan, newest.snapshot, report, preempting) if report is not None else None

    def why(self, row: int) -> str:
        """Return the reason of a job."""
        newest = self._newest
        if self._cells is None:
            seen, plan, _, there, _ = newest.part_of(row)
            return reason(plan, seen, there)
        found = self._cells.of(row)
        return in_words(found) if found is not None else reason(newest.plan, newest.snapshot, row)

    def cluster(self, row: int) -> str:
        """Return the virtual cluster of a job; "": none."""
        clusters = self._newest.snapshot.jobs.virtual_cluster
        return clusters[row] if clusters else ""

    def cell(self, row: int) -> str:
        """Return the type of the cell of its virtual cluster in which a job runs; "": none."""
        return self._cells.cell(row) if self._cells is not None else ""
