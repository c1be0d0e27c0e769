"""Makes the plan of one ranking: the walk, the eviction, and the nodes of each start."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np

from tiresias.scheduler.admit.quotas import QuotaUse, free_only, obstacle
from tiresias.scheduler.admit.remote_memory import REMOTE_MEMORY, why_refused
from tiresias.scheduler.assignment import Assignment
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values
from tiresias.scheduler.evict.defragment import repacked
from tiresias.scheduler.evict.drain import Drain
from tiresias.scheduler.evict.eviction import Walk, releases_by_order
from tiresias.scheduler.evict.protection import is_protected
from tiresias.scheduler.idle_pools import unchanged
from tiresias.scheduler.model import Bools, Effect, Floats, Ints, JobState, Plan, Preempt, Resize, Snapshot, Start
from tiresias.scheduler.place.candidate_nodes import Placement
from tiresias.scheduler.place.free_capacity import GPUS, ClusterCapacity, Holdings, PlacementRequest, free
from tiresias.scheduler.place.last_nodes import AlikeNodes, on_last_nodes, rows_of_last_nodes
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.placement_requests import PlacementRequests
from tiresias.scheduler.rank.policy import Policy, Ranking
from tiresias.scheduler.rank.standing import Standing
from tiresias.scheduler.reason_codes import Reason, ReasonCode
from tiresias.scheduler.reasons import BLOCKED, DRAINS, NEVER, NO_NODES
from tiresias.scheduler.selection import evicted
from tiresias.scheduler.size.smaller_sizes import smaller_sizes
from tiresias.scheduler.unplaceable_requests import UnplaceableRequests

_WAITING, _RUNNING, _RELEASING = int(JobState.WAITING), int(JobState.RUNNING), int(JobState.RELEASING)  # compare faster


class PlanBuilder:
    """Selects jobs, assigns nodes to them, and makes the plan; for one ranking of one snapshot.

    Args:
        snapshot: Jobs, nodes and allocations.
        config: The configuration of the stages.
        policy: The policy of the ranking.
        ranking: The order of the jobs.
        left_out: Waiting jobs that are not to start now, shape (jobs,).
        up_to: Only waiting jobs ahead of this row compete for GPUs; None: all of them.
        sizes: The GPUs that the sizing found for each job, shape (jobs,); None: all jobs have fixed sizes.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        config: PolicyConfig,
        policy: Policy,
        ranking: Ranking,
        left_out: Bools,
        up_to: int | None = None,
        sizes: Ints | None = None,
    ) -> None:
        self._snapshot, self._config, self._policy, self._sizes = snapshot, config, policy, sizes
        self._ranking = ranking
        self._placer, self._holdings = Placer(snapshot), Holdings(snapshot)
        jobs = snapshot.jobs
        self._rank = np.empty(len(jobs), np.int64)
        self._rank[self._ranking.order] = np.arange(len(jobs))
        running, waiting, total = jobs.state == _RUNNING, jobs.state == _WAITING, int(snapshot.nodes.gpus.sum())
        self._competes = running & jobs.movable & ~is_protected(snapshot, config) & policy.preempts
        self._applies = waiting & jobs.eligible & (jobs.gpus <= total) & ~left_out
        self._backlog = int(np.count_nonzero(self._applies)) / max(total, 1)
        self._lower_ranked = self._applies & (self._rank >= (len(jobs) if up_to is None else self._rank[up_to]))
        self._applies &= np.logical_not(self._lower_ranked)
        self._free_only = free_only(jobs)
        drains = policy.drains(jobs, snapshot.time, config)
        self._drains = np.logical_and(drains, self._applies & np.logical_not(self._free_only))
        self._walked = np.zeros(len(jobs), np.bool_)
        self._admission = QuotaUse(snapshot.quotas)
        self._cost = np.where(self._competes, self._holdings.gpus(), jobs.gpus)
        self._requests = PlacementRequests(snapshot, self._placer)
        by_order = releases_by_order(config.eviction, policy.spares)
        self._unplaceable = UnplaceableRequests(self._requests, jobs.gpus, self._rank, by_order)
        self._why: dict[int, Reason] = {}
        self._scattered: list[int] = []  # enough GPUs are free for these jobs, but not on the nodes that they need

    def assign(self) -> Assignment:
        """Assign nodes to jobs, in walks that are repeated until each selected job has nodes."""
        while (assignment := self._attempt()) is None:
            pass
        return assignment

    def starving(self, assignment: Assignment) -> Iterator[int]:
        """Yield rows of starving jobs that do not fit, in order; of a kind only those smaller than all before. O(nodes) each."""
        if not self._drains.any():
            return
        drain, whole, least = self._drain(assignment), self._everything()[1], dict[PlacementRequest, int]()
        placed = assignment.starts.keys() | assignment.reserved.keys() | self._admission.refused.keys()
        order = self._ranking.order
        for row in order[self._drains[order]].tolist():
            kind, gpus = self._requests.on_any_nodes(row), int(self._snapshot.jobs.gpus[row])
            fits = self._walked[row] and row not in self._scattered
            if row in placed or fits or gpus >= least.get(kind, gpus + 1):
                continue
            least[kind] = gpus
            if drain.could_fit(kind, gpus, whole):
                yield row

    def keeping_free(self, row: int) -> Assignment | None:
        """Assign the jobs ahead of `row`, then keep nodes free for it, then assign other free nodes to lower-ranked jobs."""
        assignment = self.assign()
        ahead = int(self._cost[self._walked & (self._rank < self._rank[row])].sum())
        enough = self._everything()[1][:, GPUS].sum() - ahead
        if not self._admission.admit(row):
            return None
        if not self._drain(assignment).keep_free(assignment.capacity, row, self._requests.on_any_nodes(row), enough):
            return None
        self._why[row] = DRAINS
        order = self._ranking.order
        for other in order[self._lower_ranked[order]].tolist():
            if other != row and self._admission.admit(other) and not assignment.assign_free_nodes(other):
                self._admission.give_back(other)
        return assignment

    def _drain(self, assignment: Assignment) -> Drain:
        return Drain(self._snapshot, self._config, self._placer, self._holdings, self._rank, assignment.keeps)

    def _attempt(self) -> Assignment | None:
        """Make one walk with its placements. None: a job was skipped, as no nodes fit it, so the walk has to be repeated."""
        now, later = self._everything()
        order = self._ranking.order
        order = order[(self._competes | self._applies)[order]]
        self._admission = QuotaUse(self._snapshot.quotas)
        selected = self._select(order, round(later[:, GPUS].sum()))
        if skipped := self._unplaceable.among(order[selected & self._applies[order]]):
            self._skip(skipped)
            return None
        keeps = self._competes.copy()
        keeps[order[~selected]] = False
        later -= self._holdings.on_nodes(np.flatnonzero(keeps))
        assignment = Assignment(
            self._snapshot.jobs,
            self._placer,
            self._holdings,
            self._rank,
            ClusterCapacity(self._placer.space(now), self._placer.space(later)),
            keeps,
            self._requests,
            self._free_only,
        )
        waits = self._applies[order]
        if not self._competes.any() and not self._policy.blocks:
            return self._assign_one_by_one(assignment, order, round(later[:, GPUS].sum()))
        assign_all = self._assign_in_order if self._policy.blocks else self._assign_all
        return assignment if assign_all(assignment, order[waits], selected[waits]) else None

    def _select(self, order: Ints, capacity: int) -> Bools:
        """Return which of the jobs that compete or apply, in this order, are to hold GPUs."""
        cost, waits, admission = self._cost[order], self._applies[order], self._admission
        selected = admission.walk(order, cost, waits, capacity, self._policy.blocks)
        self._walked[order] = selected
        if not (self._competes[order] & ~selected).any():
            return selected
        policy = self._policy
        worth, loss = (column[order] for column in self._weights)
        walked = Walk(order, cost, ~waits, selected, worth, loss, policy.release_rate, capacity, policy.spares)
        return evicted(self._snapshot, self._config.eviction, walked, admission)

    @cached_property
    def _weights(self) -> tuple[Floats, Floats]:
        """What the start of each job is worth, and what its preemption costs."""
        jobs, policy, time = self._snapshot.jobs, self._policy, self._snapshot.time
        worth, loss = policy.worth(jobs, time, self._config), policy.loss(jobs, self._backlog, time, self._config)
        return _column(worth, len(jobs)), _column(loss, len(jobs))

    def _everything(self) -> tuple[Floats, Floats]:
        """Return what is free now, and what would be free after all possible preemptions; shape (nodes, columns)."""
        now = free(self._snapshot.nodes)
        return now, now + self._freed

    @cached_property
    def _freed(self) -> Floats:
        """What all possible preemptions would free, shape (nodes, columns)."""
        return self._holdings.on_nodes(np.flatnonzero((self._snapshot.jobs.state == _RELEASING) | self._competes))

    def _assign_all(self, assignment: Assignment, waiting: Ints, selected: Bools) -> bool:
        """waiting: rows in order; selected: which of them the walk took."""
        skipped = list[int]()
        for row in waiting[selected].tolist():
            if assignment.assign(row):
                continue
            if not (skipped or assignment.reserved or self._free_only[row]):
                self._unplaceable.add(row)
            skipped.append(row)
        self._skip(skipped)
        return not skipped

    def _assign_one_by_one(self, assignment: Assignment, waiting: Ints, capacity: int) -> Assignment:
        """Walk and assign in one pass, where no job competes: a skipped job takes no GPUs from lower-ranked jobs."""
        gpus, self._admission = self._snapshot.jobs.gpus.tolist(), QuotaUse(self._snapshot.quotas)
        for row in waiting.tolist():
            if gpus[row] > capacity or not self._admission.admit(row):
                continue
            if assignment.assign(row):
                capacity -= gpus[row]
            else:
                self._admission.give_back(row)
                self._skip([row])
        return assignment

    def _assign_in_order(self, assignment: Assignment, waiting: Ints, selected: Bools) -> bool:
        """All jobs ranked after the first one without nodes wait, unless that one could never run."""
        for place, row in enumerate(waiting.tolist()):
            if row in self._admission.refused or (selected[place] and assignment.assign(row)):
                continue
            if self._free_only[row] or not self._requests.possible(row):
                self._skip([row])
                return False
            self._why.update(dict.fromkeys(waiting[place + 1 :].tolist(), BLOCKED))
            break
        return True

    def _skip(self, rows: list[int]) -> None:
        self._applies[rows] = False
        for row in rows:
            self._why[row] = self._why_skipped(row)

    def _why_skipped(self, row: int) -> Reason:
        if not self._requests.possible(row):
            return NEVER
        if self._free_only[row]:
            return Reason(ReasonCode.REFUSED_BY_SLURM, obstacle(self._snapshot.jobs, row))
        self._scattered.append(row)
        kind, gpus = self._requests.of(row), int(self._snapshot.jobs.gpus[row])
        if not kind.packed:
            return NO_NODES
        nodes, seconds = self._placer.fewest(kind, gpus), self._requests.packed_s(row)
        return Reason(ReasonCode.PACKED, amount=nodes, seconds=seconds)

    def _defragment(self, assignment: Assignment) -> dict[int, int]:
        """Choose jobs to preempt so that nodes are defragmented for the first skipped job: victim and beneficiary."""
        jobs = self._snapshot.jobs
        if not (self._config.defragment and self._scattered):
            return {}
        row = min(self._scattered, key=lambda row: int(self._rank[row]))
        free_amounts, may_move = assignment.capacity.now.amount, self._competes & assignment.keeps
        found = repacked(
            self._snapshot, self._config, row, may_move, free_amounts, self._placer, self._holdings, self._requests
        )
        if found is None:
            return {}
        del self._why[row]
        assignment.reserved[row] = found.placement
        for mover, nodes in found.moves.items():
            self._why[mover] = Reason(ReasonCode.DEFRAGMENT, jobs.id[row], nodes=self._start(mover, nodes).nodes)
        return dict.fromkeys(found.moves, row)

    def plan(self, assignment: Assignment) -> Plan:
        """Return the plan that carries an assignment out."""
        jobs = self._snapshot.jobs
        order = self._ranking.order
        preemptions = assignment.victims(order[(self._competes & ~assignment.keeps)[order]].tolist())
        smaller = self._smaller_sizes(assignment, preemptions)
        preemptions |= self._defragment(assignment)
        starts = self._on_last_nodes(assignment)
        effect = unchanged(jobs)
        effect[list(assignment.starts)] = Effect.START
        effect[list(preemptions)] = Effect.PREEMPT
        victims = (
            Resize(jobs.id[row], smaller[row], beneficiary=jobs.id[other])
            if row in smaller
            else Preempt(jobs.id[row], jobs.id[other])
            for row, other in preemptions.items()
        )
        return Plan(
            effect,
            self._ranking.queue,
            self._rank,
            actions=(*self._named(starts), *victims),
            promoted=tuple(jobs.id[row] for row in np.flatnonzero(self._ranking.promoted)),
            reserved=tuple(self._named(assignment.reserved)),
            why=self._blocked() | self._why,
            standing=Standing(self._snapshot, self._ranking.queue, self._policy, self._config),
        )

    def _on_last_nodes(self, assignment: Assignment) -> dict[int, Placement]:
        """Return the placements of the starts, with nodes exchanged for those of last runs where nothing else differs."""
        snapshot = self._snapshot
        last = rows_of_last_nodes(snapshot.jobs.last_nodes, snapshot.nodes, assignment.starts)
        if not last:
            return assignment.starts
        starts, reserved = assignment.starts, {node for each in assignment.reserved.values() for node, _ in each}
        alike = AlikeNodes(
            snapshot.nodes,
            assignment.capacity,
            starts,
            reserved,
            self._requests.of,
            self._placer.surroundings.neighbours,
        )
        return on_last_nodes(starts, last, alike)

    def _smaller_sizes(self, assignment: Assignment, victims: Iterable[int]) -> dict[int, int]:
        """Return the sizes with which victims go on at once on GPUs that are left when all others have theirs, by row."""
        if self._sizes is None:
            return {}
        later = assignment.capacity.later

        def takes(row: int, gpus: int) -> bool:
            kind = self._requests.of(row)
            placement = self._placer.place(kind, gpus, later)
            if placement is not None:
                later.take(kind, placement)
            return placement is not None

        return smaller_sizes(self._snapshot.jobs, self._sizes, victims, takes)

    def _blocked(self) -> dict[int, Reason]:
        """Jobs that a quota keeps waiting."""
        return {row: self._why_refused(row, reason) for row, reason in self._admission.refused.items()}

    def _why_refused(self, row: int, reason: str) -> Reason:
        if reason != REMOTE_MEMORY:
            return Reason(ReasonCode.BLOCKED_BY_SLURM, reason)
        return why_refused(self._snapshot.jobs.request[row].remote_memory, self._admission.left(reason))

    def _named(self, placements: dict[int, Placement]) -> Iterator[Start]:
        return itertools.starmap(self._start, placements.items())

    def _start(self, row: int, placement: Placement) -> Start:
        names = self._snapshot.nodes.name
        return Start(self._snapshot.jobs.id[row], tuple((names[node], gpus) for node, gpus in placement))


def _column(values: Values, jobs: int) -> Floats:
    """What is the same for all jobs is a single number in a policy's formulas."""
    return np.broadcast_to(np.asarray(values, np.float64), (jobs,))
