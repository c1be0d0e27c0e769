"""A simulated cluster of nodes: each decision is one call of `scheduler.decide` on a snapshot, as in the controller."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from tiresias.scheduler.decide import decide
from tiresias.scheduler.elementwise import known
from tiresias.scheduler.job_queue import Choice
from tiresias.scheduler.model import Floats, Ints, Plan, Snapshot, Start
from tiresias.scheduler.next_change import relaxes
from tiresias.scheduler.rank.policy import Policy
from tiresias.scheduler.size.sampling import next_sample_end
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.contention.contention_tracker import ContentionTracker
from tiresias.simulator.contention.server_loads import PartOfServer
from tiresias.simulator.contention.simulated_contention import SimulatedContention
from tiresias.simulator.elastic.elastic_runs import ElasticRuns
from tiresias.simulator.elastic_job import JobSize
from tiresias.simulator.job_columns import JobColumns
from tiresias.simulator.occupancy import Occupancy
from tiresias.simulator.simulated_assist import SimulatedAssist, assisted
from tiresias.simulator.simulated_job import SimulatedJob
from tiresias.simulator.simulated_memory import MemoryUse
from tiresias.simulator.simulated_placement import SimulatedPlacement
from tiresias.simulator.simulation_rules import Rules
from tiresias.simulator.snapshots import job_rows
from tiresias.simulator.trace import Trace


class NodeAllocator:
    """Decides and places jobs on nodes; the same interface as `PoolAllocator`. One decision is O(jobs).

    Attributes:
        relaxes: The next moment at which a waiting job accepts a placement that it refuses now; inf for never.
        resized: The rows of the jobs whose size the last decision changes, and that release GPUs for no job in particular.
        shrunk: The rows of the victims that go on at once with fewer GPUs.
        samples: Those of `resized` whose next size is a sample.
        contention: The slowdowns of running jobs by each other; None: there are none.
        memory: The memory that jobs use; None: it is not simulated.
        sample_end: The next moment at which a sample ends; inf for never.
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
        self.contention = _contention(rules.contention, cluster, models)
        self._placement, self._gpus_per_node, self._models = rules.placement, cluster.gpus_per_node, models
        self._by_row = _placement_of_rows(rules.placement, models)
        self._slowness = rules.placement.slowness if rules.placement else None
        self._needs = (
            _speed_needs_of_rows(rules.placement, trace) if rules.placement and self._slowness is not None else None
        )
        self.memory = MemoryUse(rules.memory, trace, cluster) if rules.memory else None
        self._occupancy = Occupancy(cluster, has_tenants=rules.tenants is not None)
        self._elastic = (
            ElasticRuns(trace, cluster.gpus, cluster.gpus_per_node, rules.cost_of(models), rules.measurements)
            if trace.elastic
            else None
        )
        self.relaxes, self.resized, self.samples, self.sample_end = math.inf, list[int](), list[int](), math.inf
        self.shrunk = frozenset[int]()
        self._samples = bool(trace.elastic and rules.config.size_samples and rules.measurements)
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
        if self.memory:
            self.memory.change(job.row, self._occupancy.held(job.row), -1.0)
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
        if self._elastic:
            self._elastic.learn(list(self._jobs.values()), now)
        snapshot = self.snapshot(now)
        plan = self._decide(snapshot, self._policy)
        self.relaxes = relaxes(snapshot, self._config)
        self._starts = {int(start.job): start for start in (*plan.starts, *plan.reserved)}
        if plan.servers is not None:
            self._servers = dict(zip(map(int, snapshot.jobs.id), plan.servers.tolist(), strict=True))
        self.resized = [int(each.job) for each in plan.resizes if not each.beneficiary]
        self.shrunk = frozenset(int(each.job) for each in plan.resizes if each.beneficiary)
        self.samples = [int(each.job) for each in plan.resizes if each.is_sample]
        for change in plan.rebindings:
            self._occupancy.rebind(int(change.job), change.owned_cells)
        return Choice(list(self._starts), [int(each.job) for each in plan.preemptions])

    def note_samples(self, now: float) -> None:
        """Note when the next sample ends, and the memory in use, after a decision."""
        if self.memory:
            self.memory.note(now)
        self.sample_end = next_sample_end(self.snapshot(now), self._config) if self._samples else math.inf

    def admit(self, choice: Choice) -> list[SimulatedJob]:
        """Allocate the nodes of the chosen jobs that are free, and return these jobs; the others remain reserved."""
        started = [row for row in choice.starts if self._occupancy.take(row, self._starts[row])]
        for row in started:
            if self.memory:
                self.memory.change(row, self._occupancy.held(row), 1.0)
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
        speeds = self._placement.speeds if self._placement else None
        of_nodes = speeds.slowdown(self._models[job.row], self._rows_of(job)) if speeds else 1.0
        of_memory = self.memory.slowdown(job.row) if self.memory else 1.0
        return of_nodes * of_memory * self._slowdown_by_distance(job, place)

    def _rows_of(self, job: SimulatedJob) -> list[int]:
        return [held.node for held in self._occupancy.held(job.row)]

    def _slowdown_by_distance(self, job: SimulatedJob, place: Sequence[tuple[str, int]]) -> float:
        if self._elastic and self._elastic.is_elastic(job.row):
            return self._elastic.begin(job.row, JobSize(tuple(share for _, share in place), job.servers))
        if not self._placement or (self.contention and self.contention.links):  # then the links slow it
            return 1.0
        nodes = len(place)
        return self._placement.slowdown(self._models[job.row], job.gpus, nodes, self._gpus_per_node)

    def parts(self, job: SimulatedJob) -> tuple[PartOfServer, ...]:
        """Return what a job has of its nodes."""
        return tuple(PartOfServer(held.node, held.parts) for held in self._occupancy.held(job.row))

    def snapshot(self, now: float) -> Snapshot:
        """Return the jobs and nodes at `now`, as `decide` sees them."""
        jobs = list(self._jobs.values())
        columns = JobColumns(jobs)
        columns.now = now
        clusters = [self._clusters[job.row] for job in jobs]
        kinds = self.contention.kinds(columns.row) if self.contention else None
        shown = job_rows(jobs, columns, now, clusters, interference_kind=kinds, **self._placement_columns(columns))
        if self._elastic:
            shown = self._elastic.shown(shown, columns.row.tolist(), columns.servers, now)
        places = {job.row: place for place, job in enumerate(jobs)}
        nodes, held = self._occupancy.nodes(), self._occupancy.allocations(places)
        if self._slowness is not None:
            nodes = replace(nodes, slowness=self._slowness)
        table = self.contention.table if self.contention else None
        trained = self._placement.trained if self._placement else None
        rows = columns.row.tolist()
        if self.memory:
            shown = replace(shown, request=self.memory.requests(rows))
        found = Snapshot(now, shown, nodes, held, interference=table, trained=trained)
        return self.memory.shown(found, rows) if self.memory else found

    def _placement_columns(self, seen: JobColumns) -> dict[str, Any]:
        """Return the columns on placement. A job waits for the fewest nodes from its submission or its last preemption on."""
        if self._by_row is None:
            return {}
        style, wait_limit = self._by_row
        since = known(seen.preempted, seen.submit)
        found = {
            "style": style[seen.row],
            "packed_until": np.where(wait_limit[seen.row] > 0, since + wait_limit[seen.row], -np.inf),
        }
        if self._needs is not None:
            found["speed_sensitivity"], found["locality_penalty"] = self._needs[:, seen.row]
        return found


def _decision(rules: Rules) -> Callable[[Snapshot, Policy], Plan]:
    """Return the decision on a snapshot under a policy: of all jobs together, of tenants, or of mode assist."""
    if rules.tenants:
        return rules.tenants.decision(rules.config)
    if rules.assists:
        return lambda snapshot, policy: assisted(snapshot, cast(SimulatedAssist, policy), rules.config)
    return lambda snapshot, policy: decide(snapshot, rules.config, policy)


def _contention(
    contention: SimulatedContention | None, cluster: ClusterSize, models: Sequence[str]
) -> ContentionTracker | None:
    if contention is None:
        return None
    network = cluster.network if contention.network else None
    return ContentionTracker(models, cluster.kinds, network, contention.interference)


def _placement_of_rows(placement: SimulatedPlacement | None, models: Sequence[str]) -> tuple[Ints, Floats] | None:
    """Return the placement style and the wait limit (seconds) of each row of the trace."""
    if placement is None:
        return None
    of = {model: (int(placement.style_of(model)), placement.wait_limit_of(model)) for model in set(models)}
    style, wait_limit = zip(*map(of.__getitem__, models), strict=True) if models else ((), ())
    return np.array(style, np.int64), np.array(wait_limit, np.float64)


def _speed_needs_of_rows(placement: SimulatedPlacement, trace: Trace) -> Floats:
    """Return what each row of the trace needs of the speed of its nodes, as in `SpeedNeeds`, shape (2, rows)."""
    kinds = list(zip(trace.model, trace.gpus.tolist(), strict=True))
    of = {kind: placement.speed_needs(*kind) for kind in set(kinds)}
    return np.asarray(np.array([of[kind] for kind in kinds], np.float64).reshape(-1, 2).T)
