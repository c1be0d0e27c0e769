"""Which running jobs without cells are preempted for guaranteed ones.

Of the placements that are compared the one with the fewest GPUs of preempted jobs is chosen, then the one whose victims rank last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from functools import cached_property
from itertools import islice
from operator import sub
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Bools, Ints, JobState, Request, Snapshot
from tiresias.scheduler.place.free_capacity import COUNTED, amounts
from tiresias.scheduler.tenants.cell_changes import CellChanges, users
from tiresias.scheduler.tenants.hardware_demand import HardwareDemand
from tiresias.scheduler.tenants.held_by_node import HeldByNode
from tiresias.scheduler.tenants.shown_gangs import COVERED, MOVABLE, PROTECTED, RELEASING
from tiresias.scheduler.virtual_clusters.gang_requests import GangRequest
from tiresias.scheduler.virtual_clusters.placement_search import ChosenSearch, FoundPlacement

LAST = 4  # jobs that rank last, which are tried as victims besides those of the first placement
TRIALS = 64  # further searches for hardware in one decision
_ROUNDING = 1e-6


class CostedPlacement(NamedTuple):
    """Hardware for a job.

    Attributes:
        found: The GPUs.
        victims: The jobs to preempt so that all that the job takes there becomes free.
        cost: Their weighted GPUs, then how high they rank.
    """

    found: FoundPlacement
    victims: list[str]
    cost: tuple[int, int]


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
        order: Returns the rows of chosen jobs, shape (jobs,), as the policy of the jobs without cells ranks them. Called only if it
            decides.
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
        order: Callable[[Bools], Ints],
    ) -> None:
        self._snapshot, self._changes, self._row, self._order = snapshot, changes, row_of, order
        self._removable, self._covered, self._demand = removable, covered, demand
        self._preempted, self._settled = set(preempted), set(preempted)  # the latter are no candidates
        self._candidate: Bools = removable & (snapshot.jobs.state == JobState.RUNNING)
        self._lowered, self._trials = set[str](), TRIALS
        self._available: dict[int, Sequence[float]] = {}  # free or released, by row of the node
        self._exact = snapshot.nodes.free.amount.shape[1] > COUNTED  # which GPUs of a node counts

    def _may_end(self, job: str) -> bool:
        """Return whether a job may be preempted in addition."""
        row = self._row.get(job)  # a gang of unmanaged jobs has none
        return row is not None and job not in self._settled and bool(self._candidate[row])

    def _weight(self, job: str) -> int:
        """Return how much the GPUs of a job that may be preempted in addition are avoided."""
        usual = MOVABLE if self._snapshot.jobs.movable[self._row[job]] else PROTECTED
        return max(usual, COVERED) if job in self._covered else usual

    @cached_property
    def _held(self) -> HeldByNode:
        """What the jobs hold that are preempted, may be preempted, or release their GPUs."""
        counts = self._removable | (self._snapshot.jobs.state == JobState.RELEASING)
        counts[[self._row[job] for job in self._preempted]] = True
        return HeldByNode(self._snapshot, counts)

    @cached_property
    def _last(self) -> Ints:
        """The rows of the jobs without cells that may be preempted or release their GPUs, the last one in their order first."""
        return self._order(self._removable)[::-1]

    @cached_property
    def _place(self) -> Ints:
        """The place of each job there, shape (jobs,)."""
        found = np.zeros(len(self._removable), np.int64)
        found[self._last] = np.arange(len(self._last))
        return found

    def _rank(self, job: str) -> int:
        """Return the place of a job in the order of those that may be preempted: the last one has the highest."""
        return -int(self._place[self._row[job]])

    def bind(self, gang: GangRequest, search: ChosenSearch, request: Request) -> CostedPlacement | None:
        """Find hardware where it costs the least, and bind it; None: there is none.

        Up to `TRIALS` times in one decision it is searched as if a further job ended in any case. A placement that takes free cells
        is bound at once and taken back for the next trial. That moves its cells to the end of their free lists, so that the trials
        compare equally good cells. Any other one is bound when it has been chosen, and a job is tried only if its GPUs count. The
        first further search lets the cells choose first of which the gang takes most GPUs: a large cell of which it takes one GPU
        would else get the hardware with the most free GPUs.

        Args:
            gang: The gang.
            search: Finds hardware for its virtual nodes.
            request: What the job requests besides GPUs.
        """
        found = self._tried(gang, search, request)
        if found is not None and found.victims:
            found, search = self._in_other_order(found, gang, search, request)
        for job in self._candidates(found.victims) if found is not None and found.victims else ():
            if found is not None and self._may_differ(job, search):
                found = self._cheaper(found, job, gang, search, request)
        is_bound = found is None or search.takes_cells or self._changes.bind(gang, search, found.found)
        return found if is_bound else None

    def _is_on_known_nodes(self, search: ChosenSearch) -> bool:
        """Return whether all that a search can find costs the same: the nodes are known, and GPUs are counted by node."""
        return search.is_inside and not self._exact

    def _may_differ(self, job: str, search: ChosenSearch) -> bool:
        """Return whether a search may find a placement of another cost if a job ended in any case."""
        if self._is_on_known_nodes(search):
            return False
        return search.takes_cells or self._changes.concerns(job, search)

    def _in_other_order(
        self, found: CostedPlacement, gang: GangRequest, search: ChosenSearch, request: Request
    ) -> tuple[CostedPlacement | None, ChosenSearch]:
        """Search once more in another order of the cells. Returns the cheaper placement, and the search that finds it."""
        other_search = search.most_gpus_first()
        if other_search is None or self._trials <= 0:
            return found, search
        self._trials -= 1
        if self._is_on_known_nodes(search):
            return found, search
        self._take_back(search)
        other = self._tried(gang, other_search, request)
        if other is not None and other.cost < found.cost:
            return other, other_search
        if other is not None:
            self._take_back(other_search)
        return self._tried(gang, search, request) if search.takes_cells else found, search

    def _cheaper(
        self, found: CostedPlacement, job: str, gang: GangRequest, search: ChosenSearch, request: Request
    ) -> CostedPlacement | None:
        """Search again as if a job ended in any case. Returns a new placement if it costs less, else one as before."""
        self._take_back(search)
        self._changes.weigh(job, RELEASING - self._weight(job))
        other = self._tried(gang, search, request)
        if other is not None and other.cost < found.cost:
            self._lowered.add(job)
            return other
        if other is not None:
            self._take_back(search)
        self._changes.take_back_last()
        return self._tried(gang, search, request) if search.takes_cells else found

    def _tried(self, gang: GangRequest, search: ChosenSearch, request: Request) -> CostedPlacement | None:
        """Search, and bind what takes free cells."""
        found = search.run()
        if found is None or (search.takes_cells and not self._changes.bind(gang, search, found)):
            return None
        victims = self._missing(found, request)
        return CostedPlacement(found, victims, self._cost(victims))

    def _take_back(self, search: ChosenSearch) -> None:
        if search.takes_cells:
            self._changes.take_back_last()

    def _candidates(self, own: Collection[str]) -> list[str]:
        """Return the jobs that are tried as victims: those of a placement, and those that rank last."""
        by_rank = sorted(own, key=self._rank, reverse=True)
        ids = self._snapshot.jobs.id
        every = dict.fromkeys((*by_rank, *islice(filter(self._may_end, (ids[row] for row in self._last)), LAST)))
        tried = [job for job in every if job not in self._lowered][: self._trials]
        self._trials -= len(tried)
        return tried

    def _cost(self, victims: Sequence[str]) -> tuple[int, int]:
        """Return the weighted GPUs of jobs that would be preempted in addition, and how high they rank."""
        return sum(map(self._weighted, victims)), -min(map(self._rank, victims), default=0)

    def _weighted(self, job: str) -> int:
        return self._weight(job) * int(self._snapshot.jobs.gpus[self._row[job]])

    def preempt(self, victims: Sequence[str]) -> None:
        """Count the victims of a placement that has been bound as preempted from now on."""
        for job in victims:
            if job not in self._lowered:
                self._changes.weigh(job, RELEASING - self._weight(job))
            self._settled.add(job)
            self._preempted.add(job)
            self._available.clear()

    def spare(self, victims: Sequence[str]) -> bool:
        """Count victims as not preempted if all that is promised becomes free without them. Returns whether it does.

        For the end of a decision: no later placement of it preempts them.
        """
        held = self._held.of([self._row[job] for job in victims])
        if not all(self._suffices(row, amount) for row, amount in held.items() if self._demand.is_promised(row)):
            return False
        self._preempted.difference_update(victims)
        self._available.clear()
        return True

    def _suffices(self, row: int, kept: Sequence[float]) -> bool:
        """Return whether a node can give what is promised there if so much is not released: GPUs, CPUs, MiB."""
        return _short(self._demand.with_promised(row, kept), self._there(row)) <= _ROUNDING

    def _missing(self, found: FoundPlacement, request: Request) -> list[str]:
        """Return the jobs to preempt so that what is promised on the nodes, and what `request` takes there, becomes free.

        Which GPUs a job uses does not count: it is spared if the others release enough. One that uses none of the cells is
        preempted if CPUs or memory are missing. Where parts of nodes are cells all jobs on their GPUs are preempted.
        """
        gpus = Counter(leaf.nodes[0] for pod in found.physical for leaf in pod)
        demand = self._demand
        needs = {
            (row := demand.row(node)): demand.with_promised(row, amounts(request, count))
            for node, count in gpus.items()
        }
        if not self._exact and all(_short(need, demand.free(row)) <= _ROUNDING for row, need in needs.items()):
            return []
        rows, short = list(needs), list[float]()
        for row, needed in needs.items():
            short += map(sub, needed, self._there(row))
        own = {group.name for group in users(found) if self._may_end(group.name)} if self._exact else set[str]()
        return self._enough(self._on(rows), short, own) if own or max(short) > _ROUNDING else []

    def _there(self, row: int) -> Sequence[float]:
        """Return what is free on a node or released there: GPUs, CPUs, MiB."""
        if row not in self._available:
            ends = [held for job, held in self._held.on(row).items() if self._is_released(job)]
            self._available[row] = [sum(each) for each in zip(self._demand.free(row), *ends, strict=True)]
        return self._available[row]

    def _is_released(self, job: str) -> bool:
        return job in self._preempted or int(self._snapshot.jobs.state[self._row[job]]) == JobState.RELEASING

    def _on(self, rows: Sequence[int]) -> dict[str, list[float]]:
        """Return what each job that may be preempted holds on some nodes: GPUs, CPUs and MiB of one after the other."""
        found: dict[str, list[float]] = {}
        for at, row in enumerate(rows):
            for job, held in self._held.on(row).items():
                if self._may_end(job):
                    found.setdefault(job, [0.0] * (COUNTED * len(rows)))[COUNTED * at : COUNTED * (at + 1)] = held
        return found

    def _enough(self, there: Mapping[str, Sequence[float]], short: Sequence[float], own: Set[str]) -> list[str]:
        """Return jobs that release what is short, the smallest ones that rank last first, and none that can be spared but `own`."""
        chosen = []
        for job in sorted(there, key=lambda each: (each not in own, self._weighted(each), -self._rank(each))):
            if job in own or any(held > 0 and lack > _ROUNDING for held, lack in zip(there[job], short, strict=True)):
                chosen.append(job)
                short = [lack - held for held, lack in zip(there[job], short, strict=True)]
        for job in sorted(set(chosen) - own, key=lambda each: (-self._weighted(each), self._rank(each))):
            without = [lack + held for held, lack in zip(there[job], short, strict=True)]
            if max(without) <= _ROUNDING:
                chosen.remove(job)
                short = without
        return chosen


def _short(need: Sequence[float], there: Sequence[float]) -> float:
    """Return the largest difference between what is needed and what is there."""
    found: float = max(map(sub, need, there))
    return found
