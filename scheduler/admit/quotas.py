"""The admit stage: which waiting jobs Slurm could start, and what they may take of the limits that they share.

A job that Slurm would refuse takes no part in a decision: no job is preempted for it and nothing is reserved for it. What
concerns one job alone is in its row: `eligible`, `obstacle`, `free_only`, `request.closed`. What several jobs share is a `Quota`;
waiting jobs take of it in the order of the ranks. A preemption returns nothing to a quota: what running jobs hold of it stays
held until they end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from tiresias.scheduler.evict.by_rank import walk
from tiresias.scheduler.model import Bools, Ints, Jobs, JobState, Plan, Quota, Snapshot

_ROUNDING = 1e-6  # of sums of limits


class QuotaUse:
    """What waiting jobs may still take of the quotas; jobs that hold GPUs are counted in `Quota.left` already.

    Attributes:
        refused: by row of a job that a quota keeps waiting, Slurm's reason.
    """

    def __init__(self, quotas: Sequence[Quota]) -> None:
        self._reason = [quota.reason for quota in quotas]
        self._left = [quota.left + _ROUNDING for quota in quotas]
        self._takes: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
        for index, quota in enumerate(quotas):
            for row, amount in quota.amounts.items():
                self._takes[row].append((index, amount))
        self.refused: dict[int, str] = {}

    def admit(self, row: int) -> bool:
        """Take what the waiting job `row` needs of all its quotas. False: one of them has too little left, and nothing is taken."""
        takes = self._takes.get(row, ())
        for index, amount in takes:
            if amount > self._left[index]:
                self.refused[row] = self._reason[index]
                return False
        for index, amount in takes:
            self._left[index] -= amount
        self.refused.pop(row, None)
        return True

    def give_back(self, row: int) -> None:
        """Return what `admit` took for a job that does not start after all."""
        for index, amount in self._takes.get(row, ()):
            self._left[index] += amount

    def left(self, reason: str) -> float:
        """Return what the admitted jobs leave of the quota with this reason; 0 where there is none."""
        found = zip(self._reason, self._left, strict=True)
        return next((max(left - _ROUNDING, 0.0) for name, left in found if name == reason), 0.0)

    def walk(self, rows: Ints, cost: Ints, waits: Bools, capacity: int, blocks: bool) -> Bools:
        """As `evict.by_rank.walk`, and a waiting job is taken only if its quotas have enough left.

        rows, cost, waits: of the jobs in the order of the walk, shape (jobs,). A job that a quota keeps waiting is skipped, with
        `blocks` too. O(jobs).
        """
        if not self._takes:
            return walk(cost, capacity, blocks)
        taken = np.zeros(len(rows), bool)
        for place, (row, gpus, wait) in enumerate(zip(rows.tolist(), cost.tolist(), waits.tolist(), strict=True)):
            if gpus > capacity:
                if blocks:
                    break
                continue
            if not wait or self.admit(row):
                taken[place] = True
                capacity -= gpus
        return taken


def obstacle(jobs: Jobs, row: int) -> str:
    """Slurm's reason for which the job cannot start now, or for which its last start was refused; "" for none."""
    return jobs.obstacle[row] if jobs.obstacle else ""


def free_only(jobs: Jobs) -> Bools:
    """Waiting jobs that may start on free GPUs only, shape (jobs,)."""
    if jobs.free_only is None:
        return np.zeros(len(jobs), bool)
    found: Bools = jobs.free_only & (jobs.state == JobState.WAITING)
    return found


def blocks_beside_free(snapshot: Snapshot, plan: Plan) -> bool:
    """Whether a rule or a reservation keeps a job waiting that would fit on the GPUs which the plan leaves free. O(jobs)."""
    jobs, starting = snapshot.jobs, {start.job for start in plan.starts}
    free = int(snapshot.nodes.free["gpus"].sum()) - sum(gpus for start in plan.starts for _, gpus in start.nodes)
    fit = np.flatnonzero((jobs.state == JobState.WAITING) & (jobs.gpus <= free)).tolist()
    limited = {row for quota in snapshot.quotas for row in quota.amounts}
    return any(jobs.id[row] not in starting and (row in limited or _is_ruled_out(jobs, row)) for row in fit)


def _is_ruled_out(jobs: Jobs, row: int) -> bool:
    """Whether a rule keeps this job from starting, at all or on some nodes."""
    return bool((jobs.obstacle and jobs.obstacle[row]) or jobs.request[row].closed)
