"""A simulated cluster of nodes: each decision is one call of `scheduler.decide` on a snapshot, as in the controller."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tiresias.scheduler.decide import decide
from tiresias.scheduler.elementwise import known
from tiresias.scheduler.job_queue import Choice
from tiresias.scheduler.model import Floats, Ints, Plan, Snapshot, Start
from tiresias.scheduler.next_change import relaxes
from tiresias.scheduler.rank.policy import Policy
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.elastic.elastic_runs import ElasticRuns
from tiresias.simulator.elastic_job import JobSize
from tiresias.simulator.job_columns import JobColumns
from tiresias.simulator.occupancy import Occupancy
from tiresias.simulator.simulated_job import SimulatedJob
from tiresias.simulator.simulated_placement import SimulatedPlacement
from tiresias.simulator.simulation_rules import Rules
from tiresias.simulator.snapshots import job_rows
from tiresias.simulator.trace import Trace


class NodeAllocator:
    """Decides and places jobs on nodes; the same interface as `PoolAllocator`. One decision is O(jobs).

    Attributes:
        relaxes: The next moment at which a waiting job accepts a placement that it refuses now; inf for never.
        resized: The rows of the jobs whose size the last decision changes.
    """

    def __init__(
        self,
        rules: Rules,
        cluster: ClusterSize,
        jobs: Mapping[int, SimulatedJob],
        trace: Trace,
    ) -> None:
        models, clusters = trace.model, trace.vc
        self._clusters = clusters
        self._policy, self._config, self._jobs = rules.policy_of(clusters), rules.config, jobs
        self._decide = _decision(rules)
        self._placement, self._gpus_per_node, self._models = rules.placement, cluster.gpus_per_node, models
        self._by_row = _placement_of_rows(rules.placement, models)
        self._occupancy = Occupancy(cluster, has_tenants=rules.tenants is not None)
        self._elastic = (
            ElasticRuns(trace, cluster.gpus, cluster.gpus_per_node, rules.cost_of(models)) if trace.elastic else None
        )
        self.relaxes, self.resized = math.inf, list[int]()
        self._starts: dict[int, Start] = {}
        self._servers: dict[int, int] = {}  # of the jobs to start

    @property
    def free(self) -> int:
        """Number of free GPUs."""
        return self._occupancy.free

    def first_servers(self, row: int) -> int:
        """Return the parameter servers of a job at its requested size."""
        return self._elastic.first_servers(row) if self._elastic else 0

    def follow(self, policy: Policy) -> None:
        """Use this policy from now on."""
        self._policy = policy

    def update(self, job: SimulatedJob) -> float:
        """Return the next moment at which the key of the job changes by itself. Each decision computes all keys anew."""
        return float(self._policy.change(job, job.now, self._config))

    def preempt(self, job: SimulatedJob) -> None:
        """Do nothing: the next snapshot shows the state of the job."""

    def release(self, job: SimulatedJob) -> None:
        """Free the GPUs of a job."""
        self._occupancy.release(job.row)

    def fail(self, node: int) -> list[int]:
        """Mark a node as down, and return the rows of the jobs on it."""
        self._occupancy.usable[node] = False
        return self._occupancy.jobs_on(node)

    def repair(self, node: int) -> None:
        """Mark a node as usable again."""
        self._occupancy.usable[node] = True

    def choose(self, now: float) -> Choice:
        """Return the rows of the jobs to start and to preempt."""
        snapshot = self.snapshot(now)
        plan = self._decide(snapshot, self._policy)
        self.relaxes = relaxes(snapshot, self._config)
        self._starts = {int(start.job): start for start in (*plan.starts, *plan.reserved)}
        if plan.servers is not None:
            self._servers = dict(zip(map(int, snapshot.jobs.id), plan.servers.tolist(), strict=True))
        self.resized = [int(each.job) for each in plan.resizes]
        for change in plan.rebindings:
            self._occupancy.rebind(int(change.job), change.owned_cells)
        return Choice(list(self._starts), [int(each.job) for each in plan.preemptions])

    def admit(self, choice: Choice) -> list[SimulatedJob]:
        """Allocate the nodes of the chosen jobs that are free, and return these jobs; the others remain reserved."""
        started = [row for row in choice.starts if self._occupancy.take(row, self._starts[row])]
        for row in started:
            self._give(self._jobs[row], sum(share for _, share in self._starts[row].nodes))
        return [self._jobs[row] for row in started]

    def _give(self, job: SimulatedJob, gpus: int) -> None:
        """Set the GPUs with which a job starts."""
        if self._elastic and self._elastic.is_elastic(job.row):
            job.change_size(gpus, self._servers.get(job.row, job.servers))
        elif gpus != job.gpus:
            job.request(gpus)

    def slowdown(self, job: SimulatedJob) -> float:
        """Return the seconds that a second of work takes where the job is placed."""
        place = self._starts[job.row].nodes
        if self._elastic and self._elastic.is_elastic(job.row):
            return self._elastic.slowdown(job.row, JobSize(tuple(share for _, share in place), job.servers))
        if not self._placement:
            return 1.0
        nodes = len(place)
        return self._placement.slowdown(self._models[job.row], job.gpus, nodes, self._gpus_per_node)

    def snapshot(self, now: float) -> Snapshot:
        """Return the jobs and nodes at `now`, as `decide` sees them."""
        jobs = list(self._jobs.values())
        columns = JobColumns(jobs)
        columns.now = now
        clusters = [self._clusters[job.row] for job in jobs]
        shown = job_rows(jobs, columns, now, clusters, **self._placement_columns(columns))
        if self._elastic:
            shown = self._elastic.shown(shown, columns.row.tolist(), columns.servers, now)
        places = {job.row: place for place, job in enumerate(jobs)}
        return Snapshot(now, shown, self._occupancy.nodes(), self._occupancy.allocations(places))

    def _placement_columns(self, seen: JobColumns) -> dict[str, Any]:
        """Return the columns on placement. A job waits for the fewest nodes from its submission or its last preemption on."""
        if self._by_row is None:
            return {}
        style, wait_limit = self._by_row
        since = known(seen.preempted, seen.submit)
        return {
            "style": style[seen.row],
            "packed_until": np.where(wait_limit[seen.row] > 0, since + wait_limit[seen.row], -np.inf),
        }


def _decision(rules: Rules) -> Callable[[Snapshot, Policy], Plan]:
    """Return the decision on a snapshot under a policy: of all jobs together, or of tenants."""
    if rules.tenants:
        return rules.tenants.decision(rules.config)
    return lambda snapshot, policy: decide(snapshot, rules.config, policy)


def _placement_of_rows(placement: SimulatedPlacement | None, models: Sequence[str]) -> tuple[Ints, Floats] | None:
    """Return the placement style and the wait limit (seconds) of each row of the trace."""
    if placement is None:
        return None
    of = {model: (int(placement.style_of(model)), placement.wait_limit_of(model)) for model in set(models)}
    style, wait_limit = zip(*map(of.__getitem__, models), strict=True) if models else ((), ())
    return np.array(style, np.int64), np.array(wait_limit, np.float64)
