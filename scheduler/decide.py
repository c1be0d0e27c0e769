"""`decide`: from what is to what shall be. Pure: the same snapshot and configuration give the same plan.

1. The policy ranks the jobs.
2. Jobs that Slurm would not start take no part (admission.py).
   The walk of pseudocode 2 selects, in that order and by GPUs, the jobs that hold GPUs once everything has settled. Jobs that
   cannot be preempted keep theirs; the GPUs of leaving jobs count as free. Some policies have preemptions taken back that are
   not worth it.
3. Each selected job that waits is put on nodes: on free ones, else on those that leaving and unselected jobs will free (they
   are reserved for it, so nobody behind it takes them), else on those of the running jobs furthest behind it. A job for which
   no nodes can be found is skipped as one that does not fit, and the walk is made again without it.
4. Running jobs that were not selected are preempted only where a reservation needs their nodes.
5. Where that is configured, and pays, running jobs that may sit anywhere move aside for the first job that found no nodes.

For jobs that may run anywhere the outcome is that of the paper's walk. A reservation is found again in the next snapshot, in
which its victims are leaving, so no others are chosen while a preemption is under way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from tiresias.scheduler.admit.quotas import QuotaUse, free_only, obstacle
from tiresias.scheduler.admit.rules import not_admitted
from tiresias.scheduler.assignment import Assignment
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.evict.cost_aware import spare
from tiresias.scheduler.evict.defragment import Defragmenter, moments, prices
from tiresias.scheduler.evict.drain import Drain
from tiresias.scheduler.evict.protection import is_protected, protected_until
from tiresias.scheduler.model import (
    Action,
    Bools,
    Floats,
    Ints,
    JobState,
    Plan,
    Preemption,
    Request,
    Snapshot,
    Start,
    Style,
)
from tiresias.scheduler.place.candidate_nodes import Placement
from tiresias.scheduler.place.free_capacity import GPUS, ClusterCapacity, Holdings, PlacementRequest, free
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.rank.policy import Policy
from tiresias.scheduler.rank.standing import Standing
from tiresias.scheduler.reason_codes import Reason, ReasonCode
from tiresias.scheduler.reasons import BLOCKED, DRAINS, NEVER, NO_NODES
from tiresias.scheduler.reasons import reason as reason


def decide(snapshot: Snapshot, config: PolicyConfig, policy: Policy | None = None) -> Plan:
    """`policy`: in place of the one that the configuration names.

    A job that may start on free GPUs only never stands behind a preemption: where one of them starts and others have jobs preempted
    for them, the decision is made again without it, as its GPUs may do for those.

    O(jobs log jobs + started jobs x nodes); each job that is skipped for want of nodes costs up to one more walk.
    """
    policy = policy or POLICIES[config.name]
    barred = np.zeros(len(snapshot.jobs), np.bool_)
    if config.admission != "shared":
        barred = not_admitted(snapshot, config.admission, policy.rank(snapshot, config).order)
    plan = _decided(snapshot, config, policy, barred)
    on_trial = free_only(snapshot.jobs)
    if plan.preemptions and (on_trial & (plan.action == Action.START)).any():
        plan = _decided(snapshot, config, policy, on_trial | barred)
    for row in np.flatnonzero(barred).tolist():
        plan.why[row] = Reason(ReasonCode.NOT_ADMITTED, config.admission)
    return plan


def _decided(snapshot: Snapshot, config: PolicyConfig, policy: Policy, left_out: Bools) -> Plan:
    """left_out: waiting jobs that are not to start now, shape (jobs,). Where a starving job does not fit, the decision is made
    again: for the jobs ahead of it as before, and jobs behind it start only on free GPUs that are not kept free for it."""
    decision = _Decision(snapshot, config, policy, left_out)
    seating = decision.seating()
    for row in decision.starving(seating):
        drained = _Decision(snapshot, config, policy, left_out, row)
        if (kept := drained.keeping_free(row)) is not None:
            return drained.answer(kept)
    return decision.answer(seating)


def next_change(snapshot: Snapshot, config: PolicyConfig, policy: Policy | None = None) -> float:
    """The next moment at which `decide` may answer differently although nothing happens outside; inf for never.

    Where nobody waits nothing can change, and the rank of a running job matters from when it may be preempted.
    """
    policy = policy or POLICIES[config.name]
    jobs = snapshot.jobs
    if not (jobs.state == JobState.WAITING).any():
        return math.inf
    changes = policy.changes(snapshot, config)
    if policy.preempts:
        changes = np.where(is_protected(snapshot, config), protected_until(jobs, config), changes)
    return min(policy.turn(snapshot.time, config), float(changes.min()), relaxes(snapshot, config))


def relaxes(snapshot: Snapshot, config: PolicyConfig) -> float:
    """When the next waiting job takes more nodes than the fewest, or others may move aside for it."""
    jobs, moves = snapshot.jobs, moments(snapshot, config.defragment, config.preemption_cost)
    if jobs.packed_until is None:
        return moves
    patient = (jobs.state == JobState.WAITING) & (jobs.packed_until > snapshot.time)
    return float(np.min(jobs.packed_until[patient], initial=moves))


class _Decision:
    def __init__(
        self, snapshot: Snapshot, config: PolicyConfig, policy: Policy, left_out: Bools, up_to: int | None = None
    ) -> None:
        """left_out: waiting jobs that are not to start now, shape (jobs,). up_to: only waiting jobs ahead of this one apply."""
        self._snapshot, self._config, self._policy = snapshot, config, policy
        self._ranking = policy.rank(snapshot, config)
        self._placer, self._holdings = Placer(snapshot.nodes), Holdings(snapshot)
        jobs = snapshot.jobs
        self._rank = np.empty(len(jobs), np.int64)
        self._rank[self._ranking.order] = np.arange(len(jobs))
        running, waiting = jobs.state == JobState.RUNNING, jobs.state == JobState.WAITING
        self._competes = running & jobs.movable & ~is_protected(snapshot, config) & policy.preempts
        self._applies = waiting & jobs.eligible & (jobs.gpus <= snapshot.nodes.gpus.sum()) & ~left_out
        self._behind = self._applies & (self._rank >= (len(jobs) if up_to is None else self._rank[up_to]))
        self._applies &= np.logical_not(self._behind)
        self._free_only = free_only(jobs)
        drains = np.broadcast_to(np.asarray(policy.drains(jobs, snapshot.time, config), np.bool_), (len(jobs),))
        self._drains = drains & self._applies & np.logical_not(self._free_only)
        self._walked = np.zeros(len(jobs), np.bool_)
        self._admission = QuotaUse(snapshot.quotas)
        self._cost = np.where(self._competes, self._holdings.gpus(), jobs.gpus)
        worth = policy.worth(jobs, snapshot.time, config)
        self._worth = np.broadcast_to(np.asarray(worth, np.float64), (len(jobs),))
        self._style = np.zeros(len(jobs), np.int64) if jobs.style is None else jobs.style
        self._packed_until = np.full(len(jobs), -math.inf) if jobs.packed_until is None else jobs.packed_until
        packed_now = (self._style == Style.CONSOLIDATE) & (snapshot.time < self._packed_until)
        self._styles: list[int] = self._style.tolist()  # numbers of Python's: they are looked up one by one
        self._packed: list[bool] = packed_now.tolist()
        self._why: dict[int, Reason] = {}
        self._scattered: list[int] = []  # for whom GPUs would be enough, but not where they are

    def seating(self) -> Assignment:
        while (seating := self._attempt()) is None:
            pass
        return seating

    def starving(self, seating: Assignment) -> Iterator[int]:
        """Rows of starving jobs that do not fit, in order; of a kind only those smaller than all before. O(nodes) each."""
        if not self._drains.any():
            return
        drain, whole, least = self._drain(seating), self._everything()[1], dict[PlacementRequest, int]()
        placed = seating.starts.keys() | seating.reserved.keys() | self._admission.refused.keys()
        order = self._ranking.order
        for row in order[self._drains[order]].tolist():
            kind, gpus = self._kind_of(row), int(self._snapshot.jobs.gpus[row])
            fits = self._walked[row] and row not in self._scattered
            if row in placed or fits or gpus >= least.get(kind, gpus + 1):
                continue
            least[kind] = gpus
            if drain.could_fit(kind, gpus, whole):
                yield row

    def keeping_free(self, row: int) -> Assignment | None:
        """Jobs ahead of `row` as usual, then what is kept free for it, then jobs behind it on what is free besides."""
        seating = self.seating()
        ahead = int(self._cost[self._walked & (self._rank < self._rank[row])].sum())
        enough = self._everything()[1][:, GPUS].sum() - ahead
        if not self._admission.admit(row):
            return None
        if not self._drain(seating).keep_free(seating.room, row, self._kind_of(row), enough):
            return None
        self._why[row] = DRAINS
        order = self._ranking.order
        for other in order[self._behind[order]].tolist():
            if other != row and self._admission.admit(other) and not seating.seat_on_free(other):
                self._admission.give_back(other)
        return seating

    def _drain(self, seating: Assignment) -> Drain:
        return Drain(self._snapshot, self._config, self._placer, self._holdings, self._rank, seating.keeps)

    def _kind_of(self, row: int) -> PlacementRequest:
        """On any number of nodes."""
        return self._placer.kind(self._snapshot.jobs.request[row], self._styles[row])

    def _attempt(self) -> Assignment | None:
        """One walk with its placements. None: somebody found no nodes and stands aside now, so it has to be made again."""
        now, later = self._everything()
        order = self._ranking.order
        order = order[(self._competes | self._applies)[order]]
        self._admission = QuotaUse(self._snapshot.quotas)
        selected = self._select(order, round(later[:, GPUS].sum()))
        keeps = self._competes.copy()
        keeps[order[~selected]] = False
        later -= self._holdings.on_nodes(np.flatnonzero(keeps))
        seating = Assignment(
            self._snapshot.jobs,
            self._placer,
            self._holdings,
            self._rank,
            ClusterCapacity(self._placer.space(now), self._placer.space(later)),
            keeps,
            self._wishes,
            self._free_only,
        )
        waits = self._applies[order]
        if not self._competes.any() and not self._policy.blocks:
            return self._seat_one_by_one(seating, order, round(later[:, GPUS].sum()))
        seat_all = self._seat_in_line if self._policy.blocks else self._seat_all
        return seating if seat_all(seating, order[waits], selected[waits]) else None

    def _select(self, order: Ints, capacity: int) -> Bools:
        """Who of those that compete or apply, in this order, is to hold GPUs."""
        cost, waits, admission = self._cost[order], self._applies[order], self._admission
        selected = admission.walk(order, cost, waits, capacity, self._policy.blocks)
        self._walked[order] = selected
        if not self._policy.spares:
            return selected

        def fill(kept: Bools, places: Ints, free: int) -> Bools:
            for place in np.flatnonzero(selected & ~kept & waits).tolist():
                admission.give_back(int(order[place]))
            return admission.walk(order[places], cost[places], waits[places], free, False)

        return spare(cost, selected, self._competes[order], self._worth[order], capacity, fill)

    def _everything(self) -> tuple[Floats, Floats]:
        """All that is free now, and all that could be made free; shape (nodes, columns)."""
        nodes, jobs = self._snapshot.nodes, self._snapshot.jobs
        now = free(nodes)
        going = np.flatnonzero((jobs.state == JobState.RELEASING) | self._competes)
        return now, now + self._holdings.on_nodes(going)

    def _seat_all(self, seating: Assignment, waiting: Ints, selected: Bools) -> bool:
        """waiting: rows in order; selected: which of them the walk took."""
        aside = [row for row in waiting[selected].tolist() if not seating.seat(row)]
        self._stand_aside(aside)
        return not aside

    def _seat_one_by_one(self, seating: Assignment, waiting: Ints, capacity: int) -> Assignment:
        """The walk and the placements in one, where nobody has to leave: who finds no nodes takes no GPUs from those behind."""
        gpus, self._admission = self._snapshot.jobs.gpus.tolist(), QuotaUse(self._snapshot.quotas)
        for row in waiting.tolist():
            if gpus[row] > capacity or not self._admission.admit(row):
                continue
            if seating.seat(row):
                capacity -= gpus[row]
            else:
                self._admission.give_back(row)
                self._stand_aside([row])
        return seating

    def _seat_in_line(self, seating: Assignment, waiting: Ints, selected: Bools) -> bool:
        """Everybody behind the first who finds no place waits, unless that one could never run."""
        for place, row in enumerate(waiting.tolist()):
            if row in self._admission.refused or (selected[place] and seating.seat(row)):
                continue
            if self._free_only[row] or not self._possible(row):
                self._stand_aside([row])
                return False
            self._why.update(dict.fromkeys(waiting[place + 1 :].tolist(), BLOCKED))
            break
        return True

    def _stand_aside(self, rows: list[int]) -> None:
        self._applies[rows] = False
        for row in rows:
            self._why[row] = self._why_aside(row)

    def _why_aside(self, row: int) -> Reason:
        if not self._possible(row):
            return NEVER
        if self._free_only[row]:
            return Reason(ReasonCode.REFUSED_BY_SLURM, obstacle(self._snapshot.jobs, row))
        self._scattered.append(row)
        kind, gpus = self._kind(row), int(self._snapshot.jobs.gpus[row])
        if not kind.packed:
            return NO_NODES
        seconds = float(self._packed_until[row] - self._snapshot.time)
        return Reason(ReasonCode.PACKED, amount=self._placer.fewest(kind, gpus), seconds=seconds)

    def _make_way(self, seating: Assignment) -> dict[int, int]:
        """Jobs that move aside for the first that found no nodes: mover and beneficiary."""
        snapshot, jobs = self._snapshot, self._snapshot.jobs
        if not (self._config.defragment and self._scattered):
            return {}
        row = min(self._scattered, key=lambda row: int(self._rank[row]))
        price = prices(snapshot, self._competes & seating.keeps, self._config.preemption_cost)
        room, most = seating.room.now.amount, self._config.defragment
        mess = Defragmenter(jobs, self._placer, self._holdings, room, price, most, self._kind)
        waited = snapshot.time - float(np.fmax(jobs.submit[row], jobs.preempted[row]))
        patience = self._packed_until[row] - snapshot.time if self._packed[row] else math.inf
        found = mess.repack(row, waited, patience)
        if found is None:
            return {}
        del self._why[row]
        seating.reserved[row] = found.placement
        for mover, nodes in found.moves.items():
            self._why[mover] = Reason(ReasonCode.DEFRAGMENT, jobs.id[row], nodes=self._seat(mover, nodes).nodes)
        return dict.fromkeys(found.moves, row)

    def _kind(self, row: int) -> PlacementRequest:
        return self._placer.kind(*self._wishes(row))

    def _wishes(self, row: int) -> tuple[Request, int, bool]:
        """What it asks for, its style, and whether it still waits for the fewest nodes."""
        return self._snapshot.jobs.request[row], self._styles[row], self._packed[row]

    def _possible(self, row: int) -> bool:
        jobs = self._snapshot.jobs
        return self._placer.possible(self._placer.kind(jobs.request[row]), int(jobs.gpus[row]))

    def answer(self, seating: Assignment) -> Plan:
        jobs = self._snapshot.jobs
        order = self._ranking.order
        preemptions = seating.victims(order[(self._competes & ~seating.keeps)[order]].tolist())
        preemptions |= self._make_way(seating)
        holds = (jobs.state == JobState.RUNNING) | (jobs.state == JobState.STARTING)
        action = np.select([holds, jobs.state == JobState.RELEASING], [Action.KEEP, Action.RELEASE], Action.WAIT)
        action = action.astype(np.int64)
        action[list(seating.starts)] = Action.START
        action[list(preemptions)] = Action.PREEMPT
        return Plan(
            action, self._ranking.queue, self._rank,
            starts=self._named(seating.starts),
            preemptions=tuple(Preemption(jobs.id[row], jobs.id[other]) for row, other in preemptions.items()),
            promoted=tuple(jobs.id[row] for row in np.flatnonzero(self._ranking.promoted)),
            reserved=self._named(seating.reserved),
            why=self._blocked() | self._why,
            standing=Standing(self._snapshot, self._ranking.queue, self._policy, self._config),
        )  # fmt: skip

    def _blocked(self) -> dict[int, Reason]:
        """Jobs that a quota keeps waiting."""
        refused = self._admission.refused.items()
        return {row: Reason(ReasonCode.BLOCKED_BY_SLURM, reason) for row, reason in refused}

    def _named(self, seats: dict[int, Placement]) -> tuple[Start, ...]:
        return tuple(self._seat(row, placement) for row, placement in seats.items())

    def _seat(self, row: int, placement: Placement) -> Start:
        names = self._snapshot.nodes.name
        return Start(self._snapshot.jobs.id[row], tuple((names[node], gpus) for node, gpus in placement))
