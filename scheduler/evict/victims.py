"""The search for running jobs to preempt so that a waiting job fits: the lowest-ranked ones, and only where it helps."""

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
    """The search for one waiting job.

    Attributes:
        placer: The placer of the decision.
        holdings: What running jobs hold.
        kind: The job's placement request.
        gpus: The job's GPUs.
        free: What it may use without further victims, shape (nodes, columns).
    """

    placer: Placer
    holdings: Holdings
    kind: PlacementRequest
    gpus: int
    free: Floats

    def victims(self, candidates: Ints) -> tuple[list[int], Placement] | None:
        """Return the rows to preempt and the job's nodes; None when all of `candidates` are not enough.

        Victims are added in order until the job fits (a binary search: O(log jobs) placements). Those without GPUs on the job's
        nodes are spared.

        Args:
            candidates: Rows of the running jobs that may be preempted, the lowest-ranked first.
        """
        if self._place(candidates) is None:
            return None
        count = bisect.bisect_left(range(len(candidates)), True, key=lambda n: self._place(candidates[:n]) is not None)
        enough = candidates[:count]
        placement = self._place(enough)
        assert placement is not None
        here = self.holdings.sitting_on([node for node, _ in placement])
        return enough[np.isin(enough, here)].tolist(), placement

    def _place(self, victims: Ints) -> Placement | None:
        return self.placer.place(self.kind, self.gpus, self.placer.space(self.free + self.holdings.on_nodes(victims)))
