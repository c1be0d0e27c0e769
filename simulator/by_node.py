"""The cluster node by node: every decision is `scheduler.decide` on a snapshot of all jobs, as in the controller."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tiresias.scheduler.decide import decide
from tiresias.scheduler.line import Choice
from tiresias.scheduler.model import ANYWHERE, Jobs, Snapshot, Start
from tiresias.scheduler.policy import Policy
from tiresias.simulator.cluster import Cluster, Occupancy
from tiresias.simulator.job import Job, JobColumns
from tiresias.simulator.rules import Rules


class NodeByNode:
    """The same interface as `Pool`. O(jobs) a decision."""

    def __init__(self, rules: Rules, cluster: Cluster, jobs: Mapping[int, Job]) -> None:
        self._policy, self._config, self._jobs = rules.policy, rules.config, jobs
        self._on = Occupancy(cluster)
        self._starts: dict[int, Start] = {}

    @property
    def free(self) -> int:
        return self._on.free

    def follow(self, policy: Policy) -> None:
        self._policy = policy

    def update(self, job: Job) -> None:
        """Nothing is kept here that depends on keys."""

    def preempt(self, job: Job) -> None:
        """It is seen as leaving in the next snapshot."""

    def release(self, job: Job) -> None:
        self._on.leave(job.row)

    def fail(self, node: int) -> list[int]:
        """The node is down. Returns the rows of the jobs that are on it."""
        self._on.usable[node] = False
        return self._on.jobs_on(node)

    def repair(self, node: int) -> None:
        self._on.usable[node] = True

    def choose(self, now: float) -> Choice:
        plan = decide(self._snapshot(now), self._config, self._policy)
        self._starts = {int(start.job): start for start in (*plan.starts, *plan.reserved)}
        return Choice(list(self._starts), [int(each.job) for each in plan.preemptions])

    def admit(self, choice: Choice) -> list[Job]:
        """Those whose nodes are free. The others are reserved theirs in the next decision too."""
        return [self._jobs[row] for row in choice.starts if self._on.take(row, self._starts[row])]

    def _snapshot(self, now: float) -> Snapshot:
        jobs = list(self._jobs.values())
        seen, count = JobColumns(jobs), len(jobs)
        seen.now = now
        shown = Jobs(
            id=tuple(str(job.row) for job in jobs), gpus=seen.gpus, submit=seen.submit, state=seen.state,
            attained=seen.attained, ran=seen.ran, waited=seen.waited, first_start=seen.first_start,
            last_start=seen.last_start, preempted=seen.preempted, remaining=seen.remaining,
            movable=np.array([now >= job.movable_from for job in jobs], bool),
            eligible=np.ones(count, bool), request=(ANYWHERE,) * count,
        )  # fmt: skip
        return Snapshot(
            now, shown, self._on.nodes(), self._on.allocations({job.row: at for at, job in enumerate(jobs)})
        )
