"""Which running jobs without cells are preempted for guaranteed ones.

Of the placements that are compared the one with the fewest GPUs of preempted jobs is chosen, then the one whose victims rank last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence, Set
from functools import cached_property, partial

import numpy as np

from tiresias.scheduler.model import Floats, Ints, JobState, Snapshot
from tiresias.scheduler.place.free_capacity import COUNTED
from tiresias.scheduler.tenants.cell_changes import CellChanges, ChosenNodes, users
from tiresias.scheduler.tenants.cell_occupancy import COVERED, MOVABLE, RELEASING
from tiresias.scheduler.tenants.hardware_demand import HardwareDemand
from tiresias.scheduler.virtual_clusters.gang_requests import GangRequest
from tiresias.scheduler.virtual_clusters.placement_search import FoundPlacement

LAST = 4  # jobs that rank last, which are tried as victims besides those of the first placement
TRIALS = 64  # further searches for hardware in one decision
_ROUNDING = 1e-6


class Victims:
    """The victims of one decision.

    Args:
        snapshot: The jobs, and what they hold.
        changes: The cells.
        removable: Ids of the jobs without cells that release their GPUs or may be preempted.
        preempted: Ids of the jobs that are preempted in any case.
        covered: Ids of the jobs for which their VC keeps cells free.
        order: Returns the rows of all jobs as the policy of the jobs without cells ranks them. Called only if it decides.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        changes: CellChanges,
        removable: Collection[str],
        preempted: Collection[str],
        covered: Collection[str],
        order: Callable[[], Ints],
    ) -> None:
        self._snapshot, self._changes, self._order = snapshot, changes, order
        self._row, state = {job: row for row, job in enumerate(snapshot.jobs.id)}, snapshot.jobs.state
        running = (job for job in removable if state[self._row[job]] == JobState.RUNNING and job not in preempted)
        self._weight = {job: COVERED if job in covered else MOVABLE for job in running}
        self._lowered, self._trials = set[str](), TRIALS
        self._exact = snapshot.nodes.free.amount.shape[1] > COUNTED  # which GPUs of a node counts
        self._released = np.zeros((len(snapshot.nodes), COUNTED))
        ends = np.flatnonzero(snapshot.jobs.state == JobState.RELEASING).tolist()
        self._release([*ends, *(self._row[job] for job in preempted)])

    @cached_property
    def _rank(self) -> dict[str, int]:
        """The places in the order of the jobs that may be preempted."""
        ids = self._snapshot.jobs.id
        return {ids[row]: at for at, row in enumerate(self._order().tolist()) if ids[row] in self._weight}

    def bind(self, request: GangRequest, chosen: ChosenNodes, suggested: Set[str] | None) -> FoundPlacement | None:
        """Find hardware for virtual nodes as `CellChanges.bind` does, where it costs the least, and keep it."""
        found = self._changes.bind(request, chosen, suggested)
        if found is None or not self._new(found):
            return found
        for job in self._candidates(found):
            found = self._cheaper(found, job, partial(self._changes.bind, request, chosen, suggested))
            if found is None:
                return None
        return found

    def _cheaper(
        self, found: FoundPlacement, job: str, bind: Callable[[], FoundPlacement | None]
    ) -> FoundPlacement | None:
        """Search again as if a job ended in any case. The result is bound: the new placement if it costs less, else the old one."""
        cost = self._cost(found)
        self._changes.take_back_last()
        self._changes.weigh(job, RELEASING - self._weight[job])
        other = bind()
        if other is not None and self._cost(other) < cost:
            self._lowered.add(job)
            return other
        if other is not None:
            self._changes.take_back_last()
        self._changes.take_back_last()
        return bind()

    def _candidates(self, found: FoundPlacement) -> list[str]:
        """Return the jobs that are tried as victims: those of a placement, and those that rank last."""
        by_rank = sorted(self._weight, key=self._rank.__getitem__, reverse=True)
        own = self._new(found)
        every = dict.fromkeys((*(job for job in by_rank if job in own), *by_rank[:LAST]))
        tried = [job for job in every if job not in self._lowered][: self._trials]
        self._trials -= len(tried)
        return tried

    def _new(self, found: FoundPlacement) -> set[str]:
        """Return the jobs that a placement would preempt in addition."""
        return {group.name for group in users(found) if group.name in self._weight}

    def _cost(self, found: FoundPlacement) -> tuple[int, int]:
        """Return the weighted GPUs of the jobs that a placement would preempt in addition, and how high they rank."""
        names, gpus = self._new(found), self._snapshot.jobs.gpus
        weighted = sum(self._weight[job] * int(gpus[self._row[job]]) for job in names)
        return weighted, -min((self._rank[job] for job in names), default=0)

    def choose(self, found: FoundPlacement, demand: HardwareDemand, nodes: Collection[str]) -> list[str]:
        """Return the jobs to preempt so that all that is promised on the nodes becomes free. From then on they are preempted.

        A job that holds GPUs of the cells is spared if the others release enough, and one that holds none is preempted if CPUs or
        memory are missing. With parts of nodes as cells all jobs on their GPUs are preempted.
        """
        at = np.array([self._snapshot.nodes.name.index(name) for name in nodes], np.int64)
        short = demand.missing(at) - self._released[at]
        own, there = self._new(found), self._on(at)
        chosen: dict[str, Floats] = {}
        for job in sorted(there, key=lambda each: (each not in own, -self._rank[each])):
            useful = ((there[job] > 0) & (short > _ROUNDING)).any()
            if useful or (job in own and self._exact):
                chosen[job] = there[job]
                short = short - there[job]
        for job in () if self._exact else sorted(chosen, key=lambda each: -self._snapshot.jobs.gpus[self._row[each]]):
            if (short + chosen[job] <= _ROUNDING).all():
                short = short + chosen.pop(job)
        for job in chosen:
            self._end(job)
        return list(chosen)

    def _on(self, nodes: Ints) -> dict[str, Floats]:
        """Return what each job that may be preempted holds on some nodes, shape (nodes, 3)."""
        held, ids = self._snapshot.allocations, self._snapshot.jobs.id
        found = defaultdict[str, Floats](lambda: np.zeros((len(nodes), COUNTED)))
        place = {node: at for at, node in enumerate(nodes.tolist())}
        for row in np.flatnonzero(np.isin(held.node, nodes)).tolist():
            if (job := ids[held.job[row]]) in self._weight:
                found[job][place[held.node[row]]] += held.resources.amount[row, :COUNTED]
        return found

    def _end(self, job: str) -> None:
        if job not in self._lowered:
            self._changes.weigh(job, RELEASING - self._weight[job])
        del self._weight[job]
        self._release([self._row[job]])

    def _release(self, rows: Sequence[int]) -> None:
        """Count what jobs hold as released."""
        held = self._snapshot.allocations
        own = np.isin(held.job, rows)
        np.add.at(self._released, held.node[own], held.resources.amount[own, :COUNTED])
