"""The cluster node by node: every decision is `scheduler.decide` on a snapshot of all jobs, as in the controller."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tiresias.scheduler.decide import decide, relaxes
from tiresias.scheduler.elementwise import known
from tiresias.scheduler.job_queue import Choice
from tiresias.scheduler.model import Floats, Ints, Snapshot, Start
from tiresias.scheduler.rank.policy import Policy
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.occupancy import Occupancy
from tiresias.simulator.simulated_job import JobColumns, SimulatedJob
from tiresias.simulator.simulated_placement import SimulatedPlacement
from tiresias.simulator.simulation_rules import Rules
from tiresias.simulator.snapshots import job_rows


class NodeAllocator:
    """The same interface as `PoolAllocator`. O(jobs) a decision."""

    def __init__(
        self, rules: Rules, cluster: ClusterSize, jobs: Mapping[int, SimulatedJob], models: Sequence[str]
    ) -> None:
        """`models`: of each row of the trace."""
        self._policy, self._config, self._jobs = rules.policy, rules.config, jobs
        self._placing, self._gpus_per_node, self._models = rules.placing, cluster.gpus_per_node, models
        self._wishes = _wishes(rules.placing, models)
        self._on = Occupancy(cluster)
        self.relaxes = math.inf
        self._starts: dict[int, Start] = {}

    @property
    def free(self) -> int:
        return self._on.free

    def follow(self, policy: Policy) -> None:
        self._policy = policy

    def update(self, job: SimulatedJob) -> None:
        """Nothing is kept here that depends on keys."""

    def preempt(self, job: SimulatedJob) -> None:
        """It is seen as leaving in the next snapshot."""

    def release(self, job: SimulatedJob) -> None:
        self._on.leave(job.row)

    def fail(self, node: int) -> list[int]:
        """The node is down. Returns the rows of the jobs that are on it."""
        self._on.usable[node] = False
        return self._on.jobs_on(node)

    def repair(self, node: int) -> None:
        self._on.usable[node] = True

    def choose(self, now: float) -> Choice:
        snapshot = self.snapshot(now)
        plan = decide(snapshot, self._config, self._policy)
        self.relaxes = relaxes(snapshot, self._config)
        self._starts = {int(start.job): start for start in (*plan.starts, *plan.reserved)}
        return Choice(list(self._starts), [int(each.job) for each in plan.preemptions])

    def admit(self, choice: Choice) -> list[SimulatedJob]:
        """Those whose nodes are free. The others are reserved theirs in the next decision too."""
        return [self._jobs[row] for row in choice.starts if self._on.take(row, self._starts[row])]

    def slowdown(self, job: SimulatedJob) -> float:
        if not self._placing:
            return 1.0
        nodes = len(self._starts[job.row].nodes)
        return self._placing.slowdown(self._models[job.row], job.gpus, nodes, self._gpus_per_node)

    def snapshot(self, now: float) -> Snapshot:
        """Return the jobs and nodes at `now`, as `decide` sees them."""
        jobs = list(self._jobs.values())
        columns = JobColumns(jobs)
        columns.now = now
        shown = job_rows(jobs, columns, now, **self._wanted(columns))
        places = {job.row: place for place, job in enumerate(jobs)}
        return Snapshot(now, shown, self._on.nodes(), self._on.allocations(places))

    def _wanted(self, seen: JobColumns) -> dict[str, Any]:
        """Of each job its style, and until when it waits for the fewest nodes: counted from when it came, or came back."""
        if self._wishes is None:
            return {}
        style, patience = self._wishes
        since = known(seen.preempted, seen.submit)
        return {
            "style": style[seen.row],
            "packed_until": np.where(patience[seen.row] > 0, since + patience[seen.row], -np.inf),
        }


def _wishes(placing: SimulatedPlacement | None, models: Sequence[str]) -> tuple[Ints, Floats] | None:
    """Style and patience of each row of the trace."""
    if placing is None:
        return None
    of = {model: (int(placing.style_of(model)), placing.patience_of(model)) for model in set(models)}
    style, patience = zip(*map(of.__getitem__, models), strict=True) if models else ((), ())
    return np.array(style, np.int64), np.array(patience, np.float64)
