"""Jobs that name nodes (Slurm's -w) and use others as well: which of their virtual nodes are bound to those that they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice, permutations

from tiresias.scheduler.model import Request, Snapshot, Start
from tiresias.scheduler.tenants.cell_changes import ChosenNodes
from tiresias.scheduler.tenants.tenant_decision import TenantDecision
from tiresias.scheduler.virtual_clusters.buddy_allocation import OnlyNodes
from tiresias.scheduler.virtual_clusters.cell import VirtualCell

_MOST_TRIALS = 24  # ways to assign the names to the virtual nodes of one job


class NamedNodes:
    """The jobs of one decision for which the nodes that they name are too few.

    Args:
        snapshot: Jobs and nodes.
        row_of: The row of each job.
        node: The row of each node by name.
    """

    def __init__(self, snapshot: Snapshot, row_of: Mapping[str, int], node: Mapping[str, int]) -> None:
        self._requests, self._row, self._node = snapshot.jobs.request, row_of, node
        self._cells: dict[str, frozenset[VirtualCell]] = {}  # for the nodes that a job names
        self._without_names: dict[str, Request] = {}

    def __contains__(self, job: str) -> bool:
        """Return whether a job is one of them, once it has been `chosen`."""
        return job in self._cells

    def chosen(self, decision: TenantDecision, start: Start) -> ChosenNodes:
        """Return the virtual nodes of a start, first those that its VC has chosen for the nodes that the job names."""
        chosen, request = decision.chosen(start), self._requests[self._row[start.job]]
        if not request.nodes or len(chosen) <= len(request.nodes):
            return chosen
        named = self._cells[start.job] = decision.named(self._row[start.job])
        self._without_names[start.job] = replace(request, nodes=frozenset())
        return sorted(chosen, key=lambda each: each[0] not in named)

    def request(self, job: str) -> Request:
        """Return what a job requests of each of its nodes."""
        return self._without_names.get(job) or self._requests[self._row[job]]

    def limits(self, job: str, chosen: ChosenNodes) -> Iterator[OnlyNodes]:
        """Yield to which nodes the virtual nodes may be bound: those chosen for names to any of these; then some to one each."""
        names, cells = self._requests[self._row[job]].nodes, [cell for cell, _ in chosen]
        others = dict.fromkeys(cells, frozenset(self._node) - names)
        yield {**others, **dict.fromkeys(self._cells[job].intersection(cells), names)}
        single = [frozenset({name}) for name in sorted(names)]
        for some in islice(permutations(cells, len(single)), _MOST_TRIALS):
            yield {**others, **dict(zip(some, single, strict=True))}
