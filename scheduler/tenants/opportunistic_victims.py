"""Which running jobs without cells are preempted for guaranteed ones.

Of the placements that are compared the one with the fewest GPUs of preempted jobs is chosen, then the one whose victims rank last.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from functools import cached_property, partial

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints, JobState, Request, Snapshot
from tiresias.scheduler.place.free_capacity import COUNTED, amounts
from tiresias.scheduler.tenants.cell_changes import CellChanges, ChosenNodes, users
from tiresias.scheduler.tenants.cell_occupancy import COVERED, MOVABLE, PROTECTED, RELEASING
from tiresias.scheduler.tenants.hardware_demand import HardwareDemand
from tiresias.scheduler.virtual_clusters.cell import PhysicalCell
from tiresias.scheduler.virtual_clusters.gang_requests import GangRequest
from tiresias.scheduler.virtual_clusters.placement_search import FoundPlacement

LAST = 4  # jobs that rank last, which are tried as victims besides those of the first placement
TRIALS = 64  # further searches for hardware in one decision
_ROUNDING = 1e-6


class OpportunisticVictims:
    """The victims of one decision.

    Args:
        snapshot: The jobs, and what they hold.
        changes: The cells.
        row_of: The row of each job.
        removable: The jobs without cells that release their GPUs or may be preempted, shape (jobs,).
        demand: What is promised on each node.
        preempted: Ids of the jobs that are preempted in any case.
        covered: Ids of the jobs for which their VC keeps cells free.
        order: Returns the rows of all jobs as the policy of the jobs without cells ranks them. Called only if it decides.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        changes: CellChanges,
        row_of: Mapping[str, int],
        removable: Bools,
        demand: HardwareDemand,
        preempted: Collection[str],
        covered: Collection[str],
        order: Callable[[], Ints],
    ) -> None:
        self._snapshot, self._changes, self._row, self._order = snapshot, changes, row_of, order
        self._removable, self._preempted, self._covered = removable, tuple(preempted), covered
        self._demand = demand
        self._lowered, self._trials = set[str](), TRIALS
        self._exact = snapshot.nodes.free.amount.shape[1] > COUNTED  # which GPUs of a node counts

    @cached_property
    def _weight(self) -> dict[str, int]:
        """How much the GPUs of each job that may be preempted in addition are avoided."""
        jobs = self._snapshot.jobs
        rows = np.flatnonzero(self._removable & (jobs.state == JobState.RUNNING)).tolist()
        usual = {jobs.id[row]: MOVABLE if jobs.movable[row] else PROTECTED for row in rows}
        return {
            job: max(weight, COVERED) if job in self._covered else weight
            for job, weight in usual.items()
            if job not in self._preempted
        }

    @cached_property
    def _released(self) -> Floats:
        """What jobs that are preempted or release their GPUs hold of each node, shape (nodes, 3)."""
        ends = np.flatnonzero(self._snapshot.jobs.state == JobState.RELEASING).tolist()
        return self._held_by([*ends, *(self._row[job] for job in self._preempted)])

    @cached_property
    def _rank(self) -> dict[str, int]:
        """The places in the order of the jobs that may be preempted."""
        ids = self._snapshot.jobs.id
        return {ids[row]: at for at, row in enumerate(self._order().tolist()) if ids[row] in self._weight}

    def bind(
        self,
        gang: GangRequest,
        chosen: ChosenNodes,
        suggested: Set[str] | None,
        request: Request,
        refused: Set[PhysicalCell],
    ) -> FoundPlacement | None:
        """Find hardware for virtual nodes as `CellChanges.bind` does, where it costs the least, and keep it.

        Args:
            gang: The gang.
            chosen: Its virtual nodes.
            suggested: Names of the allowed nodes; None: all.
            request: What the job requests besides GPUs.
            refused: GPUs that may not be used.
        """
        bind = partial(self._changes.bind, gang, chosen, suggested, refused)
        found = bind()
        if found is None or not self._missing(found, request):
            return found
        for job in self._candidates(self._missing(found, request)):
            found = self._cheaper(found, job, request, bind)
            if found is None:
                return None
        return found

    def _cheaper(
        self, found: FoundPlacement, job: str, request: Request, bind: Callable[[], FoundPlacement | None]
    ) -> FoundPlacement | None:
        """Search again as if a job ended in any case. The result is bound: a new placement if it costs less, else one as before."""
        cost = self._cost(found, request)
        self._changes.take_back_last()
        self._changes.weigh(job, RELEASING - self._weight[job])
        other = bind()
        if other is not None and self._cost(other, request) < cost:
            self._lowered.add(job)
            return other
        if other is not None:
            self._changes.take_back_last()
        self._changes.take_back_last()
        return bind()

    def _candidates(self, own: Collection[str]) -> list[str]:
        """Return the jobs that are tried as victims: those of a placement, and those that rank last."""
        by_rank = sorted(self._weight, key=self._rank.__getitem__, reverse=True)
        every = dict.fromkeys((*(job for job in by_rank if job in own), *by_rank[:LAST]))
        tried = [job for job in every if job not in self._lowered][: self._trials]
        self._trials -= len(tried)
        return tried

    def _cost(self, found: FoundPlacement, request: Request) -> tuple[int, int]:
        """Return the weighted GPUs of the jobs that a placement would preempt in addition, and how high they rank."""
        names = self._missing(found, request)
        return sum(map(self._weighted, names)), -min((self._rank[job] for job in names), default=0)

    def _weighted(self, job: str) -> int:
        return self._weight[job] * int(self._snapshot.jobs.gpus[self._row[job]])

    def choose(self, found: FoundPlacement) -> list[str]:
        """Return the jobs to preempt so that all that is promised on the nodes becomes free. From then on they are preempted."""
        chosen = self._missing(found)
        for job in chosen:
            if job not in self._lowered:
                self._changes.weigh(job, RELEASING - self._weight[job])
            del self._weight[job]
            self._released += self._held_by([self._row[job]])
        return chosen

    def _missing(self, found: FoundPlacement, request: Request | None = None) -> list[str]:
        """Return the jobs to preempt so that what is promised on the nodes, and what `request` takes there, becomes free.

        Which GPUs a job uses does not count: it is spared if the others release enough. One that uses none of the cells is
        preempted if CPUs or memory are missing. Where parts of nodes are cells all jobs on their GPUs are preempted.
        """
        gpus = Counter(leaf.nodes[0] for pod in found.physical for leaf in pod)
        at = self._demand.rows(gpus)
        short = self._demand.missing(at) - self._released[at]
        if request is not None:
            short += [amounts(request, count) for count in gpus.values()]
        own = {group.name for group in users(found) if group.name in self._weight} if self._exact else set[str]()
        return self._enough(self._on(at), short, own) if own or (short > _ROUNDING).any() else []

    def _enough(self, there: Mapping[str, Floats], short: Floats, own: Set[str]) -> list[str]:
        """Return jobs that release what is short, the smallest ones that rank last first, and none that can be spared but `own`."""
        chosen = []
        for job in sorted(there, key=lambda each: (each not in own, self._weighted(each), -self._rank[each])):
            if job in own or ((there[job] > 0) & (short > _ROUNDING)).any():
                chosen.append(job)
                short = short - there[job]
        for job in sorted(set(chosen) - own, key=lambda each: (-self._weighted(each), self._rank[each])):
            if (short + there[job] <= _ROUNDING).all():
                chosen.remove(job)
                short = short + there[job]
        return chosen

    def _on(self, nodes: Sequence[int]) -> dict[str, Floats]:
        """Return what each job that may be preempted holds on some nodes, shape (nodes, 3)."""
        held, ids = self._snapshot.allocations, self._snapshot.jobs.id
        found = defaultdict[str, Floats](lambda: np.zeros((len(nodes), COUNTED)))
        place = {node: at for at, node in enumerate(nodes)}
        for row in np.flatnonzero(np.isin(held.node, nodes)).tolist():
            if (job := ids[held.job[row]]) in self._weight:
                found[job][place[held.node[row]]] += held.resources.amount[row, :COUNTED]
        return found

    def _held_by(self, rows: Sequence[int]) -> Floats:
        """Return what jobs hold of each node, shape (nodes, 3)."""
        held, found = self._snapshot.allocations, np.zeros((len(self._snapshot.nodes), COUNTED))
        own = np.isin(held.job, rows)
        np.add.at(found, held.node[own], held.resources.amount[own, :COUNTED])
        return found
