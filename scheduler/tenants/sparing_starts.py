"""Starts beyond the cells of virtual clusters (VCs) that spare the jobs which starts in the cells would preempt.

A virtual node that is bound lies on one physical node. A job that starts in its free part may preempt an opportunistic job
although enough GPUs are free on other nodes. It starts on these instead, without cells, at once. Its VC goes on keeping cells free
for it, as for each job that runs opportunistically and fits into them: preempted, it starts in the cells.

Starts in cells are bound first, so none is delayed. Only jobs of one node take part, on nodes with GPUs of the same type, and none
where parts of nodes are cells: there a job would be less close together than in its cells.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
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
        suggested = self.demand.suggested(request, gpus)
        rows = self._with_left(amounts(request, gpus))
        fits = [self._is_of(row, gpu_type, suggested) for row in rows.tolist()]
        rows = rows[np.array(fits, np.bool_)]
        if not len(rows):
            return None
        avoided = self._avoided(rows)
        rows = rows[avoided == avoided.min()]
        return int(rows[np.argmin(self.demand.left(GPUS, rows))])

    def _with_left(self, amount: Sequence[float]) -> Ints:
        """Return the rows of the usable nodes on which so much is left, rising: GPUs, CPUs, MiB."""
        rows = np.flatnonzero((self.demand.left(GPUS) + _ROUNDING >= amount[GPUS]) & self.nodes.usable)
        for column in range(GPUS + 1, len(amount)):
            rows = rows[self.demand.left(column, rows) + _ROUNDING >= amount[column]]
        return rows

    def _is_of(self, row: int, gpu_type: str, suggested: Set[str] | None) -> bool:
        """Return whether a node has GPUs of this type, and is suggested. None: all are."""
        return self.nodes.gpu_type[row] == gpu_type and (suggested is None or self.nodes.name[row] in suggested)

    def _avoided(self, rows: Ints) -> Ints:
        """Return how much each of some nodes is avoided, shape (rows,)."""
        found: Ints = (self.guaranteed[rows] | (self.demand.promised[rows, GPUS] > 0)).astype(np.int64)
        return found if self.nodes.last_resort is None else found + 2 * self.nodes.last_resort[rows]
