"""`decide`: from what is to what shall be. Pure: the same snapshot and configuration give the same plan.

1. The policy ranks the jobs.
2. The walk of pseudocode 2 selects, in that order and by GPUs, the jobs that hold GPUs once everything has settled. Jobs that
   cannot be preempted keep theirs; the GPUs of leaving jobs count as free.
3. Each selected job that waits is put on nodes: on free ones, else on those that leaving and unselected jobs will free (they
   are reserved for it, so nobody behind it takes them), else on those of the running jobs furthest behind it. A job for which
   no nodes can be found is skipped as one that does not fit, and the walk is made again without it.
4. Running jobs that were not selected are preempted only where a reservation needs their nodes.

For jobs that may run anywhere the outcome is that of the paper's walk. A reservation is found again in the next snapshot, in
which its victims are leaving, so no others are chosen while a preemption is under way.
"""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Action, Bools, Floats, Ints, Plan, Preemption, Request, Snapshot, Start, State
from tiresias.scheduler.placement import GPUS, Placement, Placer
from tiresias.scheduler.policies import POLICIES
from tiresias.scheduler.policy import Policy
from tiresias.scheduler.reasons import BLOCKED, NEVER, NO_NODES
from tiresias.scheduler.reasons import reason as reason
from tiresias.scheduler.room import Holdings, Room
from tiresias.scheduler.selection import walk
from tiresias.scheduler.victims import Search

ROUNDING = 1e-6  # of sums of CPUs and megabytes


def decide(snapshot: Snapshot, config: PolicyConfig, policy: Policy | None = None) -> Plan:
    """`policy`: in place of the one that the configuration names.

    O(jobs log jobs + started jobs x nodes); each job that is skipped for want of nodes costs up to one more walk.
    """
    policy = policy or POLICIES[config.name]
    return _Decision(snapshot, config, policy).plan()


def next_change(snapshot: Snapshot, config: PolicyConfig, policy: Policy | None = None) -> float:
    """The next moment at which `decide` may answer differently although nothing happens outside; inf for never."""
    policy = policy or POLICIES[config.name]
    young = _young(snapshot, config) if policy.preempts else np.zeros(len(snapshot.jobs), bool)
    grown = snapshot.jobs.last_start[young] + config.min_run
    return min(policy.next_change(snapshot, config), float(grown.min(initial=np.inf)))


def _young(snapshot: Snapshot, config: PolicyConfig) -> Bools:
    """Jobs that have not run for long enough to be preempted."""
    jobs = snapshot.jobs
    young: Bools = (jobs.state == State.RUNNING) & (snapshot.time < jobs.last_start + config.min_run)
    return young


class _Decision:
    def __init__(self, snapshot: Snapshot, config: PolicyConfig, policy: Policy) -> None:
        self._snapshot, self._policy = snapshot, policy
        self._ranking = policy.rank(snapshot, config)
        self._placer, self._holdings = Placer(snapshot.nodes), Holdings(snapshot)
        jobs = snapshot.jobs
        self._rank = np.empty(len(jobs), np.int64)
        self._rank[self._ranking.order] = np.arange(len(jobs))
        running, waiting = jobs.state == State.RUNNING, jobs.state == State.WAITING
        self._competes = running & jobs.movable & ~_young(snapshot, config) & policy.preempts
        self._applies = waiting & jobs.eligible & (jobs.gpus <= snapshot.nodes.gpus.sum())
        self._cost = np.where(self._competes, self._holdings.gpus(), jobs.gpus)
        self._why: dict[int, str] = {}

    def plan(self) -> Plan:
        while not self._attempt():
            pass
        return self._answer()

    def _attempt(self) -> bool:
        """One walk with its placements. False: somebody found no nodes and stands aside now, so it has to be made again."""
        self._room = self._everything()
        order = self._ranking.order
        order = order[(self._competes | self._applies)[order]]
        selected = walk(self._cost[order], round(self._room.later[:, GPUS].sum()), self._policy.blocks)
        self._keeps = self._competes.copy()
        self._keeps[order[~selected]] = False
        self._room.later -= self._holdings.on_nodes(np.flatnonzero(self._keeps))
        self._starts: dict[int, Placement] = {}
        self._reserved: dict[int, Placement] = {}
        self._hopeless: set[tuple[Request, int]] = set()
        return self._seat_all(order[self._applies[order]], selected[self._applies[order]])

    def _everything(self) -> Room:
        """All that is free now, and all that could be made free."""
        nodes, jobs = self._snapshot.nodes, self._snapshot.jobs
        free = np.stack((nodes.free, nodes.free_cpus, nodes.free_memory), axis=1)
        now: Floats = np.where(nodes.usable[:, None], free, 0.0)
        going = np.flatnonzero((jobs.state == State.LEAVING) | self._competes)
        return Room(now, now + self._holdings.on_nodes(going))

    def _seat_all(self, waiting: Ints, selected: Bools) -> bool:
        """waiting: rows in order; selected: which of them the walk took."""
        if self._policy.blocks:
            return self._seat_in_line(waiting, selected)
        aside = [row for row in waiting[selected].tolist() if not self._seat(row)]
        self._stand_aside(aside)
        return not aside

    def _seat_in_line(self, waiting: Ints, selected: Bools) -> bool:
        """Everybody behind the first who finds no place waits, unless that one could never run."""
        for place, row in enumerate(waiting.tolist()):
            if selected[place] and self._seat(row):
                continue
            if not self._placer.possible(self._snapshot.jobs.request[row], int(self._snapshot.jobs.gpus[row])):
                self._stand_aside([row])
                return False
            self._why.update(dict.fromkeys(waiting[place + 1 :].tolist(), BLOCKED))
            return True
        return True

    def _stand_aside(self, rows: list[int]) -> None:
        self._applies[rows] = False
        jobs = self._snapshot.jobs
        for row in rows:
            self._why[row] = NO_NODES if self._placer.possible(jobs.request[row], int(jobs.gpus[row])) else NEVER

    def _seat(self, row: int) -> bool:
        """Find nodes for a selected job, free ones if there are any."""
        request, gpus = self._snapshot.jobs.request[row], int(self._snapshot.jobs.gpus[row])
        if (request, gpus) in self._hopeless:
            return False
        placement = self._placer.place(request, gpus, self._room.now)
        seats = self._reserved if placement is None else self._starts
        placement = placement or self._placer.place(request, gpus, self._room.later) or self._over_others(row)
        if placement is None:
            self._hopeless.add((request, gpus))
            return False
        seats[row] = placement
        self._room.take(request, placement, at_once=seats is self._starts)
        return True

    def _over_others(self, row: int) -> Placement | None:
        """Nodes that are free only when more running jobs leave than the walk by GPUs says; these are given up."""
        jobs, order = self._snapshot.jobs, self._ranking.order
        behind = order[self._rank[row] + 1 :]
        behind = behind[self._keeps[behind]][::-1]
        search = Search(self._placer, self._holdings, jobs.request[row], int(jobs.gpus[row]), self._room.later)
        found = search.victims(behind)
        if found is None:
            return None
        victims, placement = found
        self._keeps[victims] = False
        self._room.later += self._holdings.on_nodes(np.array(victims))
        self._hopeless.clear()
        return placement

    def _answer(self) -> Plan:
        jobs = self._snapshot.jobs
        preemptions = self._preemptions()
        action = np.select(
            [jobs.state == State.RUNNING, jobs.state == State.LEAVING], [Action.KEEP, Action.LEAVE], Action.WAIT
        ).astype(np.int64)
        action[list(self._starts)] = Action.START
        action[list(preemptions)] = Action.PREEMPT
        return Plan(
            action, self._ranking.queue, self._rank,
            starts=self._named(self._starts),
            preemptions=tuple(Preemption(jobs.id[row], jobs.id[other]) for row, other in preemptions.items()),
            promoted=tuple(jobs.id[row] for row in np.flatnonzero(self._ranking.promoted)),
            reserved=self._named(self._reserved),
            why=self._why,
        )  # fmt: skip

    def _preemptions(self) -> dict[int, int]:
        """Victim: beneficiary. Unselected running jobs, the most urgent first, keep their GPUs where nobody needs them."""
        needs: dict[int, int] = {}  # the most urgent reservation on each node
        for row, placement in self._reserved.items():
            for node, _ in placement:
                needs.setdefault(node, row)
        victims: dict[int, int] = {}
        order = self._ranking.order
        for row in order[(self._competes & ~self._keeps)[order]].tolist():
            held = self._holdings.of(row)
            nodes, amount = self._holdings.node[held], self._holdings.amount[held]
            short = nodes[(self._room.later[nodes] < amount - ROUNDING).any(axis=1)]
            wanted = [needs[node] for node in short.tolist() if node in needs]
            if wanted:
                victims[row] = min(wanted, key=lambda other: int(self._rank[other]))
            else:
                self._room.later[nodes] -= amount
        return victims

    def _named(self, seats: dict[int, Placement]) -> tuple[Start, ...]:
        names, ids = self._snapshot.nodes.name, self._snapshot.jobs.id
        return tuple(
            Start(ids[row], tuple((names[node], gpus) for node, gpus in placement)) for row, placement in seats.items()
        )
