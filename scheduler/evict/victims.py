"""Which running jobs make room for one that fits nowhere: those furthest behind, and only where it helps."""

from __future__ import annotations

import bisect
from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.model import Floats, Ints
from tiresias.scheduler.place.candidate_nodes import Placement
from tiresias.scheduler.place.free_capacity import Holdings, PlacementRequest
from tiresias.scheduler.place.placer import Placer


@dataclass(frozen=True, slots=True, eq=False)
class VictimSearch:
    """For a job of `gpus` GPUs; room: what it may use without further victims, shape (nodes, columns)."""

    placer: Placer
    holdings: Holdings
    kind: PlacementRequest
    gpus: int
    room: Floats

    def victims(self, behind: Ints) -> tuple[list[int], Placement] | None:
        """Rows to preempt and the nodes that they make room on; None when all of `behind` are not enough.

        behind: rows of the running jobs that may be preempted, furthest behind first. Victims are added in that order until the
        job fits (a binary search: O(log jobs) placements); those who sit elsewhere are spared.
        """
        if self._place(behind) is None:
            return None
        count = bisect.bisect_left(range(len(behind)), True, key=lambda n: self._place(behind[:n]) is not None)
        enough = behind[:count]
        placement = self._place(enough)
        assert placement is not None
        here = self.holdings.sitting_on([node for node, _ in placement])
        return enough[np.isin(enough, here)].tolist(), placement

    def _place(self, victims: Ints) -> Placement | None:
        return self.placer.place(self.kind, self.gpus, self.placer.space(self.room + self.holdings.on_nodes(victims)))
