"""Virtual nodes that a start shares with jobs for which cells are kept free.

Such a job runs elsewhere without cells. It binds no hardware, but a start does that uses other GPUs of the same virtual node, or
another node of the same virtual cluster. Where it leaves no hardware that suits the job, the virtual cluster would preempt another
job for it at the next decision, and start that one again at the decision after it.
"""

from __future__ import annotations

from tiresias.scheduler.model import Request
from tiresias.scheduler.tenants.cell_changes import ChosenNodes
from tiresias.scheduler.tenants.hardware_demand import HardwareDemand
from tiresias.scheduler.tenants.node_conditions import Condition
from tiresias.scheduler.tenants.suggested_nodes import SuggestedNodes
from tiresias.scheduler.virtual_clusters.cell import VirtualCell


class SharedNodes:
    """The virtual nodes on which GPUs are kept free, and for what."""

    def __init__(self) -> None:
        self._kept: dict[VirtualCell, list[tuple[Request, int]]] = {}

    def keep(self, request: Request, chosen: ChosenNodes) -> None:
        """Keep GPUs of virtual nodes free for a job. Those that are bound already suit it."""
        for cell, gpus in chosen:
            if cell.physical is None:
                self._kept.setdefault(cell, []).append((request, gpus))

    def nodes_of(self, chosen: ChosenNodes, demand: HardwareDemand) -> dict[VirtualCell, SuggestedNodes]:
        """Return the hardware that suits all jobs for which GPUs of a virtual node are kept free. Others may have any.

        This holds for chosen nodes, and for those of the same VC that are kept free for jobs with a condition.
        """
        cells, cluster = {cell for cell, _ in chosen}, chosen[0][0].cluster
        near = [cell for cell in self._kept if cell in cells or (cell.cluster == cluster and self._has_condition(cell))]
        suit = {cell: self._suiting(cell, demand) for cell in near}
        return {cell: nodes for cell, nodes in suit.items() if nodes is not None}

    def _has_condition(self, cell: VirtualCell) -> bool:
        return any(any(Condition.of(request)) for request, _ in self._kept[cell])

    def _suiting(self, cell: VirtualCell, demand: HardwareDemand) -> SuggestedNodes | None:
        found: SuggestedNodes | None = None
        for request, gpus in self._kept.get(cell, ()):
            nodes = demand.suggested(request, gpus)
            found = nodes if found is None else found if nodes is None else found.also(nodes)
        return found
