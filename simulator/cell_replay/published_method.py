"""HiveD's method as it was published, where `VirtualClusters` differs from it: for comparisons only.

The published method breaks its own invariants in six cases, all of them with bad hardware:

- A doomed cell that a job has begun to use is released as soon as enough others are healthy.
- A doomed cell in use that becomes healthy stays doomed, and is lost when the job ends.
- A preemption reserves cells without the check of a start: further splits can take cells that other VCs own. The check of a start
  compares numbers of cells level by level, and misses that cells of one level are parts of those that are owned above.
- A cancelled preemption returns a bad cell, although another one has been doomed for the same virtual cell.
- The first bad cell is doomed, also where it is a part of a larger one that another VC owns.
- An opportunistic job that ends on bad GPUs is subtracted from the use of the VC to whose cell they are bound.

A recorded sequence in which one of these cases occurs cannot be reproduced from that event on. `broken_at` names the event.
"""

from __future__ import annotations

from collections.abc import Iterator

from tiresias.scheduler.virtual_clusters.bad_cells import BadCells
from tiresias.scheduler.virtual_clusters.cell import MIN_GUARANTEED, OPPORTUNISTIC, PhysicalCell, VirtualCell, unbind
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

    def _to_doom(self, state: ChainState, level: int) -> PhysicalCell:
        cell = state.bad_free[level][0]
        if not state.can_spare(cell) and isinstance(self._cells, PublishedCellState):
            self._cells.taken.append(cell)
        return cell

    def _set_bound_healthy(self, cell: PhysicalCell, virtual: VirtualCell) -> None:
        if cell.priority < MIN_GUARANTEED:
            super()._set_bound_healthy(cell, virtual)


class PublishedCellState(CellState):
    """Cells whose bindings of bad hardware follow the published method.

    Attributes:
        subtracted: GPUs that were subtracted from the use of a VC that did not use them.
        taken: Cells that were doomed although they are parts of cells that other VCs own. The VCs' use may be right again after the
            event, as the gang for which they were doomed is preempted lazily.
    """

    keeps_guarantees = False
    bad_cells = _PublishedBadCells

    def __init__(self, spec: CellSpecification) -> None:
        """Build all cells."""
        self.subtracted: list[PhysicalCell] = []
        self.taken: list[PhysicalCell] = []
        super().__init__(spec)

    def release(self, leaf: PhysicalCell) -> None:
        """Take a GPU back. Its VC's use would be wrong from now on; here it is kept right, and the GPU is noted."""
        if leaf.priority == OPPORTUNISTIC and leaf.virtual is not None:
            self.subtracted.append(leaf)
        super().release(leaf)


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
        if (broken := next(_broken(replay), None)) is not None:
            return number, broken
    return None


def _broken(replay: PodReplay) -> Iterator[str]:
    cells = replay.clusters.cells
    if isinstance(cells, PublishedCellState):
        yield from (
            f"{leaf!r}: no gang of {leaf.virtual!r} used it, and one is subtracted" for leaf in cells.subtracted
        )
    yield from violations(replay.clusters)
    if isinstance(cells, PublishedCellState):
        yield from (f"{cell!r}: doomed, and a part of a cell that another virtual cluster owns" for cell in cells.taken)
