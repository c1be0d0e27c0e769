"""Starts beyond the cells of virtual clusters (VCs) that spare the jobs which starts in the cells would preempt.

A virtual node that is bound lies on one physical node. A job that starts in its free part may preempt an opportunistic job
although enough GPUs are free on other nodes. It starts on these instead, without cells, at once. Its VC goes on keeping cells free
for it, as for each job that runs opportunistically and fits into them: preempted, it starts in the cells.

Starts in cells are bound first, so none is delayed. Only jobs of one node take part, on nodes with GPUs of the same type, and none
where parts of nodes are cells: there a job would be less close together than in its cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Bools, Ints, Nodes, Request, Start
from tiresias.scheduler.place.free_capacity import GPUS, amounts
from tiresias.scheduler.tenants.hardware_demand import HardwareDemand
from tiresias.scheduler.tenants.opportunistic_victims import OpportunisticVictims

_ROUNDING = 1e-6


class PreemptingStart(NamedTuple):
    """A start in cells of one node for which jobs are preempted.

    Attributes:
        start: The start.
        request: What the job requests.
        victims: Ids of the jobs that are preempted for it, and not for a start before it.
    """

    start: Start
    request: Request
    victims: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class SparingStarts:
    """Finds free GPUs for jobs whose starts in cells preempt others.

    Attributes:
        nodes: All nodes.
        demand: What is promised on each node, with the starts in cells; it follows the starts that are replaced.
        victims: The jobs that are preempted, likewise.
        guaranteed: The nodes on which jobs hold cells, shape (nodes,).
    """

    nodes: Nodes
    demand: HardwareDemand
    victims: OpportunisticVictims
    guaranteed: Bools

    def of(self, preempting: Sequence[PreemptingStart]) -> list[Start]:
        """Return the starts on free GPUs, each in place of one in cells.

        The last one is tried first, as it may need the victims of those before it. O(nodes) each.
        """
        return [start for each in reversed(preempting) if (start := self._in_place_of(each)) is not None]

    def _in_place_of(self, each: PreemptingStart) -> Start | None:
        """Return the start on free GPUs; None: there are none, or another start needs the victims as well."""
        ((name, gpus),) = each.start.nodes
        node = self._free_node(each.request, self.nodes.gpu_type[self.demand.row(name)], gpus)
        if node is None:
            return None
        self.demand.withdraw(each.request, each.start.nodes)
        spared = self.victims.spare(each.victims)
        start = Start(each.start.job, ((self.nodes.name[node], gpus),)) if spared else each.start
        self.demand.promise(each.request, start.nodes)
        return start if spared else None

    def _free_node(self, request: Request, gpu_type: str, gpus: int) -> int | None:
        """Return the row of the node with the fewest free GPUs that suffice; None: there is none.

        Nodes that are a last resort come last, and before them those of guaranteed jobs, whose VCs may need them next.
        """
        left, suggested = self.demand.left(), self.demand.suggested(request, gpus)
        fits: Bools = (left + _ROUNDING >= amounts(request, gpus)).all(axis=1) & self.nodes.usable
        rows = [row for row in np.flatnonzero(fits).tolist() if self.nodes.gpu_type[row] == gpu_type]
        rows = [row for row in rows if suggested is None or self.nodes.name[row] in suggested]
        avoided = self._avoided()
        return min(rows, key=lambda row: (avoided[row], left[row, GPUS], row), default=None)

    def _avoided(self) -> Ints:
        """Return how much each node is avoided, shape (nodes,)."""
        found: Ints = (self.guaranteed | (self.demand.promised[:, GPUS] > 0)).astype(np.int64)
        return found if self.nodes.last_resort is None else found + 2 * self.nodes.last_resort
