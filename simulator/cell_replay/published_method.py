"""HiveD's method as it was published, where `VirtualClusters` differs from it: for comparisons only.

The published method breaks its own invariants in three cases, all of them with bad hardware:

- A doomed cell that a job has begun to use is released as soon as enough others are healthy.
- A doomed cell in use that becomes healthy stays doomed, and is lost when the job ends.
- A preemption reserves cells without the check of a start: further splits can take cells that other VCs own.

A recorded sequence in which one of these cases occurs cannot be reproduced from that event on. `broken_at` names the event.
"""

from __future__ import annotations

from tiresias.scheduler.virtual_clusters.bad_cells import BadCells
from tiresias.scheduler.virtual_clusters.cell import MIN_GUARANTEED, PhysicalCell, VirtualCell, unbind
from tiresias.scheduler.virtual_clusters.cell_invariants import violations
from tiresias.scheduler.virtual_clusters.cell_state import CellState
from tiresias.scheduler.virtual_clusters.chain_state import ChainState
from tiresias.scheduler.virtual_clusters.specification import CellSpecification
from tiresias.simulator.cell_replay.cell_events import RecordedSequence
from tiresias.simulator.cell_replay.pod_replay import PodReplay


class _PublishedBadCells(BadCells):
    def undoom(self, state: ChainState, level: int) -> None:
        for vc, owned in state.owned_free.items():
            while state.doomed[vc][level] and owned[level] < state.healthy_left(level):
                cell = state.doomed[vc][level][0]
                if cell.priority >= MIN_GUARANTEED:
                    raise ValueError(f"{cell!r}: a doomed cell is released while a gang uses it")
                unbind(cell)
                self._remove_doomed(cell, vc)
                self._cells.release_preassigned(cell, vc, doomed=True)

    def _set_bound_healthy(self, cell: PhysicalCell, virtual: VirtualCell) -> None:
        if cell.priority < MIN_GUARANTEED:
            super()._set_bound_healthy(cell, virtual)


class PublishedCellState(CellState):
    """Cells whose bindings of bad hardware follow the published method."""

    keeps_guarantees = False
    bad_cells = _PublishedBadCells


def broken_at(spec: CellSpecification, sequence: RecordedSequence, last: int) -> tuple[int, str] | None:
    """Return the first event, up to `last`, after which the published method breaks its own invariants, and which one.

    None: it breaks none.
    """
    replay = PodReplay(spec, sorted_start=sequence.sorted_start, cells=PublishedCellState)
    for number, event in enumerate(sequence.events[: last + 1]):
        try:
            replay.apply(event)
        except (ValueError, AttributeError, IndexError) as error:
            return number, str(error)
        if (broken := next(violations(replay.clusters), None)) is not None:
            return number, broken
    return None
