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
        found = self._cells.of(row) if self._cells is not None else None
        return in_words(found) if found is not None else reason(*self._newest.reasoned(row))
